# A small image without a shell, run as nobody in particular:
#
#   docker build --tag kvset:0.1.0 .
#   docker run --rm kvset:0.1.0 demo --duration 30s
#   docker build --target binary --output dist .     the program alone, for systems with glibc 2.36 or later

FROM rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
# make and perl build librdkafka and OpenSSL from source, so that the image needs neither.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make perl \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY schemas schemas
COPY crates crates
COPY src src
COPY benches benches
COPY examples examples
RUN cargo build --release --locked --bin kvset --features tokenize,tls,object-store-s3,object-store-gcs,object-store-azure \
    && mkdir /state

# What a release ships beside the image.
FROM scratch AS binary
COPY --from=build /source/target/release/kvset /kvset

FROM gcr.io/distroless/cc-debian12:nonroot@sha256:b0ae8e989418b458e0f25489bc3be523718938a2b70864cc0f6a00af1ddbd985
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
