# The workshop: every target sets up what it needs. `make` lists them.
#
# One cargo profile (dev) and one target folder serve demo, tests and benchmarks, so that nothing is
# compiled twice. RocksDB's C++ is compiled apart from the workspace (xtask/rocksdb-archive) and linked
# from an archive, because a change of features, lints or lock file would otherwise compile it again.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export ROCKSDB_LIB_DIR := $(CARGO_TARGET_DIR)/rocksdb-archive
export ROCKSDB_STATIC := 1
export CARGO_TERM_PROGRESS_WHEN ?= never

CARGO := cargo
BIN := $(CARGO_TARGET_DIR)/debug/firstclaim
BUF := $(CARGO_TARGET_DIR)/tools/bin/buf
# What a caller of the service needs, and what must never need RocksDB.
SLIM := --no-default-features -p firstclaim-core -p firstclaim-proto -p firstclaim-client -p firstclaim-cli

.PHONY: help setup rocksdb build demo test check slim docs tests cluster corpus once fix mutants sim planted chaos \
  test-long bench env

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | sed 's/\$$\$$/$$/g' | expand -t 18

setup: ## install the Debian packages that the build needs (skipped when they are there)
	@xtask/setup

rocksdb: setup ## compile RocksDB's C++, once
	@xtask/rocksdb-archive

build: rocksdb ## build the workspace; the binary is debug/firstclaim in the target folder
	@$(CARGO) build --locked --workspace

demo: build ## three regions, 200 payouts, a killed leader: watch it on real calls
	@$(BIN) demo

test: setup check slim build docs tests cluster corpus once ## everything that must hold; writes nothing outside the target folder

check: setup
	@echo "== format and lints"
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

slim: setup
	@echo "== without RocksDB: core, proto, client and the client-only command line"
	xtask/without-rocksdb $(SLIM)
	env -u ROCKSDB_LIB_DIR -u ROCKSDB_STATIC $(CARGO) test --locked $(SLIM)

docs: setup
	@echo "== documentation"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

tests: build $(BUF)
	@echo "== tests"
	FIRSTCLAIM_BIN="$(BIN)" FIRSTCLAIM_BUF="$(BUF)" $(CARGO) test --locked --workspace

once:
	@xtask/rocksdb-archive --check

$(BUF): xtask/requirements.txt | setup
	@python3 -m venv "$(CARGO_TARGET_DIR)/tools"
	"$(CARGO_TARGET_DIR)/tools/bin/pip" install --quiet --no-input --disable-pip-version-check -r xtask/requirements.txt
	touch "$@"

fix: rocksdb ## format, apply lint suggestions, rewrite the golden outputs: read the diff afterwards
	@$(CARGO) clippy --locked --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all
	UPDATE_GOLDENFILES=1 $(CARGO) test --locked -p firstclaim-core -p firstclaim-replica

mutants: setup ## break the contract on purpose: each patch of tests/mutants must make a test fail
	@tests/mutants/run

# The simulators have a profile and a target folder of their own, and need no RocksDB.
SIM := CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)/sim" $(CARGO) run --locked --quiet --profile sim -p firstclaim-sim
SEEDS ?= 2000
# Whole replicas: tokio seeds its own dice only with this flag, so all of it is built apart.
CLUSTER := CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)/sim/cluster" CARGO_PROFILE_DEV_OPT_LEVEL=2 \
  RUSTFLAGS="--cfg tokio_unstable" $(CARGO)
CLUSTER_CRATE := -p firstclaim-cluster-sim --features simulated
CLUSTER_SEEDS ?= 300

sim: setup ## play SEEDS worlds against core and its model, and CLUSTER_SEEDS with whole replicas
	@$(SIM) -- --seeds $(SEEDS)
	$(CLUSTER) run --locked --quiet $(CLUSTER_CRATE) -- --seeds $(CLUSTER_SEEDS)

planted: setup ## plant each bug of core and of the replica in turn: all must be found within 500 seeds
	@$(SIM) --features planted -- planted --show "$(CARGO_TARGET_DIR)/planted"
	$(CLUSTER) run --locked --quiet $(CLUSTER_CRATE) -- planted

cluster: setup
	@echo "== whole replicas on simulated machines, a share of the seeds"
	$(CLUSTER) clippy --locked $(CLUSTER_CRATE) --all-targets -- -D warnings
	$(CLUSTER) test --locked $(CLUSTER_CRATE)

# The decoders with doors for a fuzzer, without RocksDB, in a target folder of their own.
corpus: setup
	@echo "== kept inputs of every decoder"
	CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)/fuzz" $(CARGO) clippy --locked -p firstclaim-fuzz --features fuzzing --lib --tests -- -D warnings
	CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)/fuzz" $(CARGO) test --locked -p firstclaim-fuzz --features fuzzing

FUZZ_SECONDS ?= 30

test-long: setup ## look for inputs that break a decoder, for FUZZ_SECONDS=30 each
	@echo "== new inputs for every decoder, $(FUZZ_SECONDS) seconds each"
	xtask/fuzz $(FUZZ_SECONDS)

MINUTES ?= 15

chaos: build ## real processes under kills, stops, cut links and wrong clocks, for MINUTES=15
	@echo "== chaos, $(MINUTES) minutes"
	FIRSTCLAIM_CHAOS_MINUTES="$(MINUTES)" FIRSTCLAIM_BIN="$(BIN)" FIRSTCLAIM_BUF="$(BUF)" \
	  $(CARGO) test --locked --workspace --test chaos -- --nocapture

bench: build ## measure three local regions with 1, 64 and 256 callers
	@xtask/bench "$(BIN)"

env: ## print what plain cargo needs: eval "$$(make env)"
	@printf 'export %s=%q\n' CARGO_TARGET_DIR "$(CARGO_TARGET_DIR)" ROCKSDB_LIB_DIR "$(ROCKSDB_LIB_DIR)" \
	  ROCKSDB_STATIC "$(ROCKSDB_STATIC)" FIRSTCLAIM_BIN "$(BIN)" FIRSTCLAIM_BUF "$(BUF)"
