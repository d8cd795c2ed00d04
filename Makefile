# One command each; `make` alone lists them.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
T ?=
# uv alone, where scripts/install-uv could get it.
export PATH := $(CURDIR)/build/tools/bin:$(PATH)

.PHONY: help packages build test demo bench torture sim fuzz gpu lint format dist install clean

help:  # Lists the commands
	@sed -n 's/^\([a-z]*\):.*#  *\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

build:  # The release binary at build/release/trainyard
	@scripts/install-packages build
	@cmake --preset release > /dev/null
	@cmake --build --preset release -j $(JOBS)

# The tests themselves run one after another or two at a time: several start servers and measure time.
test: build  # Every test, or those whose name matches T=…
	@scripts/install-packages build demo test
	@scripts/install-uv
	@cmake --preset dev > /dev/null
	@cmake --build --preset dev -j $(JOBS)
	@cmake --preset tsan > /dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --preset dev -j 2 $(if $(T),-R '$(T)')

demo: build  # Trains the digits example and shows what became of it
	@scripts/install-packages demo
	@scripts/demo

bench: build  # Measures the figures: one table (NAMES='snapshot …' for some rows)
	@scripts/install-packages bench
	@scripts/install-uv
	@cmake --build --preset release -j $(JOBS) --target bench_load bench_stamp bench_query \
	  bench_control bench_sbatch bench_env bench_container
	@python3 bench/bench.py $(NAMES)

torture: build  # Kills server and supervisors at 1,000 random moments (KILLS=, SECONDS=900 AWAY=30, POWER=, SEED=)
	@python3 tests/torture.py $(if $(KILLS),--kills $(KILLS)) $(if $(SECONDS),--seconds $(SECONDS)) \
	  $(if $(AWAY),--away $(AWAY)) $(if $(POWER),--power $(POWER)) $(if $(SEED),--seed $(SEED))

sim:  # Simulates whole lives of runs with faults (SEED= replays one)
	@scripts/install-packages build test
	@cmake --preset dev > /dev/null
	@cmake --build --preset dev -j $(JOBS) --target sim_test
	@SEED=$(SEED) build/dev/sim_test

gpu: build  # Tests with a real GPU, on a machine that has one and PyTorch
	@python3 tests/gpu/gpu.py

fuzz:  # Feeds the parsers what they do not expect, SECONDS=60 each (FUZZERS='job …' for some)
	@scripts/install-packages build test fuzz
	@scripts/fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(FUZZERS)

lint:  # clang-format and clang-tidy over all files
	@scripts/install-packages build test
	@scripts/check-format
	@scripts/check-tidy --all

format:  # Writes all C++ as clang-format wants it
	@scripts/check-format --fix

dist: build  # A wheel, a .deb and a tarball in build/dist, for any glibc of 2.31 or newer
	@scripts/unpack-debian11
	@cmake --build --preset release -j $(JOBS) --target trainyard-portable
	@scripts/dist

install: build  # Binary, Python package, manuals, completion under PREFIX=/usr/local
	@cmake --install build/release --prefix $(PREFIX)

clean:  # Removes build/
	@rm -rf build
