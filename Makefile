# make test does all set-up itself; see README.md. Everything that it builds or installs is
# said while it happens.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
GO ?= go
BENCHTIME ?= 1x

.PHONY: all build test tools static unit bench-once e2e e2e-binaries peers fuzz vulncheck generate

all: build

build: ## the static binary, as the Dockerfile builds it
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w" -o meshdns .

test: tools static unit bench-once e2e ## everything that CI runs

tools: ## Debian packages that tests use: installed as root, else named
	./hack/tools

static: ## gofmt, vet, staticcheck
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

unit: ## all packages, scenarios included, with the race detector
	$(GO) test -race -shuffle=on -timeout 15m ./...

bench-once: ## each benchmark once, so that none rots
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) -short ./...

e2e-binaries: ## real API server, etcd and CoreDNS: built once, about 10 minutes on two cores
	cd e2e && GOWORK=off $(GO) run ./cmd/prepare

e2e: e2e-binaries ## the built binary against real API servers and CoreDNS
	cd e2e && GOWORK=off $(GO) vet ./... && GOWORK=off $(GO) test -p 1 -v -count=1 -timeout 20m ./...

peers: ## this server beside NSD, Knot, CoreDNS and a bare loop; ARGS are its flags (ARGS=-h shows them)
	$(GO) run ./bench/peers $(ARGS)

fuzz: ## every fuzz target for FUZZTIME
	./hack/fuzz $${FUZZTIME:-1m}

vulncheck: ## needs the vulnerability database, which is not reachable everywhere
	$(GO) tool govulncheck ./...
