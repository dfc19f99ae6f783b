"""The operator's page below `/_proxy/`: what the proxy does, and a bench to try it on.

`site` answers for the page and its numbers, `document` is the page, `overview` are the numbers, `origin` says
who may ask for them, `bench` shows one answer as it came and as it goes out.
"""
