# The builder makes a virtual environment from the locks; the final stage is the slim base and that directory.
# The base is a tag, and moves with the patch releases of Python and Debian: a new build brings their fixes.
FROM python:3.13-slim AS builder

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1

WORKDIR /src

# Before the sources: a change in the code leaves these layers in the cache.
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
    && python -m venv /opt/think-proxy \
    && /opt/think-proxy/bin/pip install --require-hashes -r requirements/runtime.txt

COPY pyproject.toml README.md LICENSE ./
COPY proxy proxy
# pip leaves with its last install: what runs needs no installer.
RUN /opt/build/bin/hatchling build -t wheel -d dist \
    && /opt/think-proxy/bin/pip install --no-index --no-deps dist/*.whl \
    && /opt/think-proxy/bin/pip uninstall --yes pip

FROM python:3.13-slim

COPY --from=builder /opt/think-proxy /opt/think-proxy
# Readable whatever the umask of the checkout was.
COPY --chmod=644 config/proxy.yaml /etc/think-proxy/proxy.yaml

# Host and port are fixed here, above any configuration file: inside a container only 0.0.0.0 can be reached from
# outside, and the health check below has to know the port. `-e THINK_PROXY_LISTEN__PORT=…` moves both.
# Nothing is written at run time (the byte code was made in the builder): a read-only root file system will do.
ENV PATH=/opt/think-proxy/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    THINK_PROXY_CONFIG=/etc/think-proxy/proxy.yaml \
    THINK_PROXY_LISTEN__HOST=0.0.0.0 \
    THINK_PROXY_LISTEN__PORT=8080

# A number, because Kubernetes' runAsNonRoot cannot tell who a name is.
USER 10001:10001

EXPOSE 8080

# http.client rather than urllib, which would send even this to the proxy that HTTP_PROXY names.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['THINK_PROXY_LISTEN__PORT']), timeout=2); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]

ENTRYPOINT ["think-proxy"]
CMD ["serve"]
