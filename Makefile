# The verbs of the repository. Tools are pinned in tools/go.mod and built into bin/ once per version.

VERSION ?= $(patsubst v%,%,$(or $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null),0.1.0-dev))
PROGRAMS := holdfast holdfast-agent holdfast-worker

# The UI is built where Node is; without it the server's page says how to.
NPM := $(shell command -v npm 2>/dev/null)
UI := web/dist/index.html
UI_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' 2>/dev/null)

.PHONY: help build web demo dev generate check test bench chaos images vuln clean
.DEFAULT_GOAL := build

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(if $(NPM),$(UI)) ## the three programs into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ $(PROGRAMS:%=./cmd/%)

web: $(UI) ## the UI into web/dist

demo: build ## a server, an agent, and examples/hello through plan, approval and apply; then all of it ends
	scripts/demo

dev: build ## a server, an agent and sample data in .holdfast, left running; prints a sign-in link
	HOLDFAST_TOFU_BIN="$$(scripts/tofu --demo)" exec bin/holdfast dev

$(UI): $(UI_SOURCES) | web/node_modules/.package-lock.json
	cd web && npm run build

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	touch $@

generate: ## write what is generated: SQL, the OpenAPI document, the UI's types
	scripts/generate

check: ## format, vet, linters, generated files up to date
	scripts/check

test: ## install or build what the tests need, and run every test
	scripts/test

bench: build ## what Holdfast costs, in a table with goals and others' figures (BENCH_FLAGS="-only cycles")
	scripts/bench

chaos: ## servers, databases and disks taken away at full size, a quarter of an hour (CHAOS_FLAGS="-run TestFullDisk")
	scripts/chaos

images: build ## the container images of server, agent and runner, as archives in bin/images
	VERSION=$(VERSION) scripts/images

vuln: ## known vulnerabilities that the programs reach
	scripts/vuln

clean: ## remove what was built, but not the tools
	rm -rf $(PROGRAMS:%=bin/%) bin/with-postgres junit.xml $(wildcard web/dist/*)
