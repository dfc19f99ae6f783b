"""`think-proxy doctor`: what a model server sends, and the configuration that fits.

`questions` are put to a `modelserver` by an `interview`; each answer is a `Sample`. `evidence` reads one
of them, `verdict` joins what they say into an entry, `leaks` judges answers that came through a proxy.
These four are pure. `report` prints, `insertion` writes into a configuration file, `command` is the whole.
"""
