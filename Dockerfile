# syntax=docker/dockerfile:1
# A small image without a shell, run as nobody in particular:
#
#   docker build --tag kvset .
#   docker run --rm kvset demo --duration 30s

FROM rust:1.95-bookworm AS build
# make, perl and cmake build librdkafka and OpenSSL from source, so that the image needs neither.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends cmake make perl \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY schemas schemas
COPY src src
COPY benches benches
RUN cargo build --release --locked --bin kvset --features tls,object-store-s3,object-store-gcs,object-store-azure \
    && strip target/release/kvset \
    && mkdir /state

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /source/target/release/kvset /usr/local/bin/kvset
# Owned by the user the image runs as (65532), so that a new volume is too.
COPY --from=build --chown=65532:65532 /state /var/lib/kvset
ENV KVSET__STATE__DIRECTORY=/var/lib/kvset \
    KVSET__HTTP__LISTEN=0.0.0.0:9464 \
    KVSET__LOG__FORMAT=json
VOLUME /var/lib/kvset
EXPOSE 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/kvset"]
CMD ["run"]
