# syntax=docker/dockerfile:1
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X github.com/meshdns/meshdns/cli.version=${VERSION}" -o /out/meshdns .

# No shell, no packages: the binary and certificates for the API servers of clouds.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/meshdns /meshdns
# A number, so that Kubernetes' runAsNonRoot can check it.
USER 65532:65532
# Ports above 1023 need no privilege; publish or map 53 to them.
EXPOSE 5354/udp 5354/tcp 9253/tcp
ENTRYPOINT ["/meshdns"]
CMD ["serve", "--config", "/etc/meshdns/config.yaml"]
