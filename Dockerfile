# The server and, with --build-arg EXTRA=demo, the demo's training job.

# This image has a compiler, which the hot path wants; the slim one has none.
FROM python:3.12 AS wheel
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE constraints.txt ./
# Both names: pip passes the first one on to the build until 25.3, and the second one since.
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_BUILD_CONSTRAINT=/src/constraints.txt
COPY loaderwatch loaderwatch
COPY web web
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . && cp constraints.txt /wheels/

FROM python:3.12-slim
ARG EXTRA=""
COPY --from=wheel /wheels /wheels
# torch alone comes from the index of CPU builds (the CUDA one is ten times as large), and everything else from PyPI alone:
# with two indexes at once, either of them could offer any package.
RUN if [ "$EXTRA" = demo ]; then \
        pip install --no-cache-dir --no-deps --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' /wheels/constraints.txt)"; \
    fi \
    && pip install --no-cache-dir -c /wheels/constraints.txt "$(ls /wheels/*.whl)${EXTRA:+[$EXTRA]}"

RUN useradd --create-home --uid 10001 loaderwatch \
    && install -d -o loaderwatch -g loaderwatch -m 0700 /data
USER loaderwatch
WORKDIR /home/loaderwatch
# No bytecode is written: the file system may be read-only.
ENV LOADERWATCH_DIR=/data PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
VOLUME /data
EXPOSE 8790
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8790/readyz', timeout=3)"]
ENTRYPOINT ["python", "-m", "loaderwatch"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8790"]
