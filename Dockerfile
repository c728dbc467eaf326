# The server and, with --build-arg EXTRA=demo, the demo's training job.

# This image has a compiler, which the hot path wants; the slim one has none.
FROM python:3.12 AS wheel
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY loaderwatch loaderwatch
COPY web web
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
ARG EXTRA=""
COPY --from=wheel /wheels /wheels
# torch from the index of CPU builds: the CUDA one is ten times as large and the demo needs no GPU
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu "$(ls /wheels/*.whl)${EXTRA:+[$EXTRA]}"

RUN useradd --create-home --uid 10001 loaderwatch \
    && install -d -o loaderwatch -g loaderwatch /data
USER loaderwatch
WORKDIR /home/loaderwatch
ENV LOADERWATCH_DIR=/data PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8790
ENTRYPOINT ["python", "-m", "loaderwatch"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8790"]
