# pykruise: every target does its own set-up inside this checkout (.venv) and installs nothing globally.
#   make demo   the main job: a cluster in one process, a CloneSet created, scaled and updated
#   make test   lint, types, import contracts and all tests; where Go is, also on a real control plane, in brief
#   make up     a cluster to play with, until Ctrl-C
#   make real   a real control plane with simulated nodes, until Ctrl-C; NODES=3: with real nodes (root)
#   make demo REAL=1  the demo on a real control plane with real nodes (root)
#   make test-real  conformance and scenarios on a real control plane; SELECTION=--brief: an eighth of their parameters
#   make test-nodes  scenarios on real nodes too (root, and packages that it names); SELECTION=... for less
#   make test-switch-over  from real OpenKruise managers to pykruise and back, on a real control plane
#   make test-others  programs of others (Rollouts, Helm, KEDA, kube-state-metrics and more) beside pykruise; keeps what became of them
#   make simulate SEEDS=100000  hunt for failures: random operations and faults in virtual time
#   make explore KIND=cloneset PODS=3  everything that can happen in small worlds
#   make mutate FILES=kinds/cloneset  mutants made by a tool of files that decide, and what no test notices
#   make fuzz OBJECTS=2000  objects of all kinds with wrong values, stored past the webhooks and sent through them
#   make simulate-mutations     rules broken on purpose: the simulator has to notice each
#   make image  the images of manager, agent and dashboard as OCI archives, of the distribution's packages, without an engine
#   make release VERSION=1.2.3  everything that a release has, in dist/release; RELEASE_ARGS=--twice: twice, and compared
#   make check-release VERSION=1.2.3  installs what was released, and nothing else, into empty places
#   make push REGISTRY=registry.example.com/team  builds the images and pushes them there, without an engine
#   make bench  measurements: a CloneSet of N=1000 pods in the sandbox, decoding, cache, planning
#   make bench-beside  pykruise and OpenKruise alternately on one real control plane: speed, CPU, memory; PAIRS=5 N=500
#   make soak HOURS=8  virtual hours of churn over all kinds, and what grows meanwhile; REAL=1: real hours
#   make bench-kopf N=10000  the same small operator on our runtime and in kopf, alternately; CHANGES=1000 ROUNDS=2
#   make attacks CLUSTER=real  manager, agent and dashboard under attack; SECONDS=60 for all attacks at once; prints the
#               figures of docs/lab/security.md
#   make site   the documentation as a site, in build/site; make spelling looks for misspelt words in it
#   make docs   the pages and parts of the chart that are made from the code
#   make record-original KINDS=CloneSet  outcomes of OpenKruise's own managers, for tests/recorded_original
#   make screenshots   the pictures of docs/dashboard.md, and of all other pages in dist/pictures, made by the dashboard's tests
#   make kubectl-kruise   the plugin for kubectl as one file, dist/kubectl-kruise; put it somewhere in PATH
#   make lock   write the hashes of supply/ anew, after pyproject.toml or constraints.txt has changed
#   make bench CLUSTER=real  a CloneSet of N=500 pods and the manager's process on a real control plane
# The real control plane is built with Go, once; KUBERNETES=1.37 or 1.32 chooses its minor.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=
CLUSTER ?= sandbox
N ?= $(if $(filter real,$(CLUSTER)),500,1000)
# Of `make real`: NODES=3 on the command line asks for so many that are real; without it there are simulated ones.
REAL_NODES := $(NODES)
NODES ?= $(if $(filter real,$(CLUSTER)),10,50)
JSON ?=
CHART ?=
KUBERNETES ?= 1.37
WORKERS ?= 5
NODE_WORKERS ?= 2
SELECTION ?=
REAL ?=
SEEDS ?= 1000
FIRST ?= 0
OBJECTS ?= 2000
SECONDS ?= 60
PROCESSES ?=
# 1: nothing is installed but what supply/ has the hash of. Continuous integration and the image do so.
LOCKED ?=
UV := 0.13.9

# Tests start many short processes: without kept bytecode each of them compiles all of pykruise first.
unexport PYTHONDONTWRITEBYTECODE

REAL_CLUSTER = PYTHONPATH=tests:. $(BIN)/python -m support.real_cluster --kubernetes $(KUBERNETES)

.PHONY: bench-beside soak test-others others-in-brief bench-in-brief bench-kopf matrix-in-brief site spelling release check-release check-release-on-nodes push-release check-workflows record-original kubectl-kruise help demo fuzz up test lint unit docs bench attacks real test-real real-in-brief test-nodes test-switch-over switch-over-in-brief nodes-and-switch-over nodes-in-brief image push screenshots simulate simulate-mutations mutate explore lock clean

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "pykruise needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "could not make a virtual environment with $(PYTHON); on Debian and Ubuntu install python3-venv"; exit 1; }
	@$(PIP) install --no-compile --upgrade -c constraints.txt pip \
	  || echo "going on with the pip that comes with $(PYTHON), which may take twice as long"

# In the order in which they need each other.
DISTRIBUTIONS := packages/kube packages/sandbox packages/agent packages/pykruise packages/dashboard
EDITABLE = $(patsubst packages/agent,packages/agent[node],$(DISTRIBUTIONS))
EDITABLE := $(EDITABLE:%=-e %)
REQUIREMENTS := pyproject.toml constraints.txt $(DISTRIBUTIONS:%=%/pyproject.toml)

$(VENV)/.ready: $(VENV)/bin/python $(REQUIREMENTS)
	@echo "setting up $(VENV) (once)"
	@$(if $(LOCKED),$(call locked,runtime),PIP_CONSTRAINT=constraints.txt $(PIP) install --no-compile -c constraints.txt $(EDITABLE))
	@touch $@

$(VENV)/.ready-dev: $(VENV)/bin/python $(REQUIREMENTS)
	@echo "setting up $(VENV) with the tools for tests (once)"
	@$(if $(LOCKED),$(call locked,dev),PIP_CONSTRAINT=constraints.txt $(PIP) install --no-compile -c constraints.txt --group dev $(EDITABLE))
	@touch $(VENV)/.ready $@

# Every package by its hash; then our own, built by what was installed before, which needs no other package.
locked = $(PIP) install --no-compile --require-hashes -r supply/build.txt -r supply/$(1).txt \
  && $(PIP) install --no-compile --no-index --no-deps --no-build-isolation $(EDITABLE)

LOCK = $(VENV)/.lock/bin/uv pip compile --constraint constraints.txt --generate-hashes --universal \
  --python-version 3.11 --no-header --no-annotate --quiet \
  --no-emit-package pykruise \
  $(patsubst packages/%,--no-emit-package pykruise-%,$(filter-out packages/pykruise,$(DISTRIBUTIONS)))
PROJECTS := $(DISTRIBUTIONS:%=%/pyproject.toml)

lock:
	@$(PYTHON) -m venv $(VENV)/.lock && $(VENV)/.lock/bin/python -m pip --quiet install uv==$(UV)
	@$(LOCK) --output-file supply/manager.txt packages/pykruise/pyproject.toml
	@$(LOCK) --output-file supply/agent.txt --extra node packages/agent/pyproject.toml
	@$(LOCK) --output-file supply/dashboard.txt packages/dashboard/pyproject.toml
	@$(LOCK) --output-file supply/runtime.txt --extra node $(PROJECTS)
	@$(LOCK) --output-file supply/dev.txt --extra node $(PROJECTS) --group pyproject.toml:dev
	@printf 'check-jsonschema\ncodespell\nmkdocs-material\n' | $(LOCK) --output-file supply/site.txt -
	@printf 'hatchling\neditables\n' | $(LOCK) --output-file supply/build.txt -

demo: $(if $(REAL),$(VENV)/.ready-dev,$(VENV)/.ready)
	@$(if $(REAL),$(REAL_CLUSTER) --demo,$(BIN)/pykruise demo)

up: $(VENV)/.ready
	@$(BIN)/pykruise up

lint: $(VENV)/.ready-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy -p testbed -p tools
	@$(BIN)/lint-imports

# Of this machine's platform and Python alone; `make release` makes it for all. It unpacks itself at its first start.
kubectl-kruise: $(VENV)/.ready-dev
	@PYTHONPATH=. $(BIN)/python -m tools.release.plugin dist/kubectl-kruise
	@echo "dist/kubectl-kruise: put it into a folder of PATH, then: kubectl kruise"

VERSION ?=
REPOSITORY ?=
BUILDER ?=
RELEASE = dist/release/$(VERSION)
needs-version = @[ -n "$(VERSION)" ] || { echo "say which: make $@ VERSION=1.2.3"; exit 1; }

release: $(VENV)/.ready-dev
	$(needs-version)
	@PYTHONPATH=. $(BIN)/python -m tools.release $(VERSION) $(if $(REGISTRY),--registry $(REGISTRY)) \
	  $(if $(REPOSITORY),--repository $(REPOSITORY)) $(if $(BUILDER),--builder $(BUILDER)) $(RELEASE_ARGS)

# Installs what is released, and nothing of this checkout, into empty places: a sandbox, and where Go is a control plane.
check-release: $(VENV)/.ready-dev
	$(needs-version)
	@PYKRUISE_RELEASE=$(CURDIR)/$(RELEASE) $(BIN)/python -m pytest tests/release -n0 $(PYTEST_ARGS)

check-release-on-nodes: $(VENV)/.ready-dev
	$(needs-version)
	@PYKRUISE_RELEASE=$(CURDIR)/$(RELEASE) $(BIN)/python -m pytest --cluster=real --real-nodes -n0 \
	  tests/scenarios/test_install_on_nodes.py $(PYTEST_ARGS)

push-release:
	$(needs-version)
	@[ -n "$(REGISTRY)" ] || { echo "say where to: make $@ VERSION=$(VERSION) REGISTRY=registry.example.com/team"; exit 1; }
	@PYTHONPATH=. $(PYTHON) -m tools.release.pushing $(REGISTRY) $(RELEASE)/kruise-*.oci.tar
	@PYTHONPATH=. $(PYTHON) -m tools.release.pushing $(REGISTRY)/charts $(RELEASE)/pykruise-chart-*.oci.tar

SITE := $(VENV)/.site
$(SITE)/.ready: $(VENV)/bin/python supply/site.txt
	@$(PYTHON) -m venv $(SITE) && $(SITE)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r supply/site.txt
	@touch $@

# Warnings are errors: links, headings and pages that no entry of the navigation leads to; so is a wanted task that is
# more than two clicks from the start page.
site: $(SITE)/.ready
	@PYTHONPATH=. $(SITE)/bin/python -m tools.site build/site-pages $(REPOSITORY)
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(SITE)/bin/python -m mkdocs build --strict --quiet
	@PYTHONPATH=. $(SITE)/bin/python -m tools.site_clicks build/site
	@echo "build/site/index.html"

spelling: $(SITE)/.ready
	@$(SITE)/bin/codespell --config supply/codespell.cfg README.md $(wildcard *.md) docs charts/pykruise/README.md charts/pykruise/values.yaml packages/*/README.md

SCHEMA = @$(SITE)/bin/check-jsonschema --quiet --builtin-schema
check-workflows: $(VENV)/.ready-dev $(SITE)/.ready
	@PYTHONPATH=. $(BIN)/python -m tools.go actionlint -color=false .github/workflows/*.yml
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	@$(SITE)/bin/check-jsonschema --quiet --check-metaschema charts/pykruise/values.schema.json

docs: $(VENV)/.ready
	@$(BIN)/python -m tools.api_reference > docs/api.md
	@$(BIN)/python -m tools.reasons_page > docs/reasons.md
	@$(BIN)/python -m tools.differences docs/migration.md
	@$(BIN)/python -m tools.verbs_page docs/kubectl.md
	@$(BIN)/python -m tools.others_table docs/compatibility.md
	@$(BIN)/python -m tools.manager_chart charts/pykruise
	@$(BIN)/python -m tools.dashboard_chart charts/pykruise
	@$(BIN)/python -m tools.chart_values charts/pykruise

# Once, so that not each worker compiles all the tests for itself: that is two thirds of what collecting them costs.
$(VENV)/.compiled: $(VENV)/.ready-dev
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

# Once more on a cluster that serves v1alpha1 alone, as with the definitions of a released OpenKruise.
OLDER := $(addprefix tests/scenarios/test_,uniteddeployment.py cloneset_rollouts.py imagepulljob.py workloadspread.py \
  containerrecreaterequest.py daemonset_rollouts.py switch_over_check.py recorded_original.py)

unit: $(VENV)/.compiled
	@$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)
	@$(BIN)/python -m pytest -n auto -q --stored=v1alpha1 $(OLDER)
	@$(BIN)/python -m pytest -n0 -q -m alone tests/unit/bench

# Lint takes one processor for a moment; the tests that begin beside it wait for sockets and processes as well.
test: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory -j2 lint unit
	@$(MAKE) --no-print-directory -j2 real-in-brief nodes-and-switch-over

real-in-brief: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory test-real SELECTION=--brief

nodes-and-switch-over: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory nodes-in-brief
	@$(MAKE) --no-print-directory switch-over-in-brief
	@$(MAKE) --no-print-directory bench-in-brief
	@$(MAKE) --no-print-directory matrix-in-brief
	@$(MAKE) --no-print-directory others-in-brief

# A few fast scenarios on one of the minors that nothing else runs on, another each day if it is built. With MINOR=1.34 on
# that one, which is built first.
matrix-in-brief: $(VENV)/.ready-dev
	@minor=$(or $(MINOR),$$($(BIN)/python -m testbed.turns)); [ -z "$$minor" ] || { \
	  echo "Kubernetes $$minor:"; \
	  KUBERNETES=$$minor $(BIN)/python -m pytest --cluster=real -q -n $(NODE_WORKERS) $(MATRIX) $(PYTEST_ARGS); }

# Not the claim that comes later: up to 1.34 the volume binder of the scheduler has a cache of its own. A new volume may
# wake a pod before that cache has the volume, and then nothing wakes the pod again for 5 minutes.
MATRIX := $(addprefix tests/scenarios/,test_scheduling.py::test_a_pod_waits_for_a_claim_that_should_be_bound_already \
  test_helm.py test_image_volumes.py::test_a_changed_image_of_a_volume_is_pulled_ahead)

# A few pods: whether the bench still runs. Its figures mean nothing.
bench-in-brief: $(VENV)/.ready-dev
	@{ $(MAKE) --no-print-directory bench CLUSTER=real N=4 NODES=2 && \
	   $(MAKE) --no-print-directory bench-beside N=4 NODES=2 PAIRS=1 ROUNDS=1 REST=1; } >$(VENV)/bench.log 2>&1 \
	  || { code=$$?; cat $(VENV)/bench.log; exit $$code; }
	@$(MAKE) --no-print-directory bench-kopf N=20 CHANGES=5 ROUNDS=1 >$(VENV)/bench-kopf.log 2>&1 \
	  || { code=$$?; cat $(VENV)/bench-kopf.log; exit $$code; }

# Real nodes are waited for most of the time, so they come up beside the other tests. What they say comes in one piece.
nodes-in-brief: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory test-nodes SELECTION='--brief tests/scenarios/test_real_nodes.py' \
	  >$(VENV)/nodes.log 2>&1; code=$$?; cat $(VENV)/nodes.log; exit $$code

# Tests wait much there, so there are more workers than processors, each with a control plane of its own. Time is
# real and the machine may be shared: what fails is named, and tried once more, alone, before it counts.
RETRIED = PYTHONPATH=tests $(BIN)/python -m support.retried
LAST_FAILED := --last-failed --last-failed-no-failures none
REAL_TESTS = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real $(SELECTION) tests/conformance \
  tests/scenarios $(PYTEST_ARGS)

test-real: $(VENV)/.ready-dev
	@$(REAL_TESTS) -n $(WORKERS) || { $(RETRIED) && $(REAL_TESTS) $(LAST_FAILED); }

NODES_CACHE := .pytest_cache/nodes
NODE_TESTS = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real --real-nodes -o cache_dir=$(NODES_CACHE) \
  $(or $(SELECTION),tests/scenarios) $(PYTEST_ARGS)

test-nodes: $(VENV)/.ready-dev
	@$(NODE_TESTS) -n $(NODE_WORKERS) || { $(RETRIED) $(NODES_CACHE) && $(NODE_TESTS) $(LAST_FAILED); }

SWITCH_OVER = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real tests/switch_over $(PYTEST_ARGS)

test-switch-over: $(VENV)/.ready-dev
	@$(SWITCH_OVER) -n $(NODE_WORKERS) $(or $(SELECTION),--exhaustive)

# Each release at rest, and a rollout that OpenKruise began.
switch-over-in-brief: $(VENV)/.ready-dev
	@if command -v go >/dev/null; then \
	  $(SWITCH_OVER) -n $(NODE_WORKERS) -k "at_rest or 1.8-pykruise" >$(VENV)/switch-over.log 2>&1; \
	  code=$$?; cat $(VENV)/switch-over.log; exit $$code; \
	else echo "nothing is switched over: OpenKruise's managers are built with Go"; fi

OTHERS = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real tests/others -n0 $(PYTEST_ARGS)

# Builds what is missing, and writes tests/others/results.json; then: make docs
test-others: $(VENV)/.ready-dev
	@$(OTHERS) --build-others --keep-results $(SELECTION)

# One canary, and what takes seconds: less than a minute of CPU. Programs that are not built yet are skipped, and said.
others-in-brief: $(VENV)/.ready-dev
	@$(OTHERS) -q -k "test_kustomize or test_kube_state or test_karmada or test_scaling_tools or reads_every_state or (canary_continues and CloneSet)" >$(VENV)/others.log 2>&1; \
	  code=$$?; cat $(VENV)/others.log; [ $$code = 5 ] || exit $$code

real: $(VENV)/.ready-dev
	@$(REAL_CLUSTER) $(if $(REAL_NODES),--real --nodes $(REAL_NODES))

bench: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench --cluster $(CLUSTER) \
	  --pods $(N) --nodes $(NODES) $(if $(JSON),--json $(JSON)) $(if $(CHART),--chart $(CHART))

# pykruise and OpenKruise alternately. Only figures of an otherwise idle machine count.
bench-beside: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench.beside \
	  --pods $(if $(filter file,$(origin N)),500,$(N)) --nodes $(or $(REAL_NODES),100) \
	  --pairs $(or $(PAIRS),5) $(if $(ORIGINAL),--release $(ORIGINAL)) $(if $(THROTTLED),--throttled) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(REST),--rest $(REST)) $(if $(PAGE),--page $(PAGE)) $(if $(JSON),--json $(JSON)) $(if $(CHART),--chart $(CHART))

# Leaks show in hours: virtual ones (a minute each), or real ones with REAL=1.
soak: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench.soak --hours $(or $(HOURS),8) \
	  $(if $(REAL),--real) $(if $(JSON),--json $(JSON)) $(if $(CHART),--chart $(CHART))

CHANGES ?= 1000
bench-kopf: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m bench.bench_kopf --sites $(if $(filter file,$(origin N)),10000,$(N)) \
	  --changes $(CHANGES) --rounds $(or $(ROUNDS),2)

attacks: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench.bench_attacks --page --cluster $(CLUSTER) \
	  --seconds $(SECONDS)

image: $(VENV)/.ready-dev
	@PYTHONPATH=. $(BIN)/python -m testbed.product_images $(or $(IMAGES),build/images)

REGISTRY ?=
push: image
	@[ -n "$(REGISTRY)" ] || { echo "say where to: make push REGISTRY=registry.example.com/team"; exit 1; }
	@PYTHONPATH=. $(BIN)/python -m tools.release.pushing $(REGISTRY) $(or $(IMAGES),build/images)/*.tar

record-original: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m recorded_original \
	  $(if $(KINDS),--kinds $(KINDS)) $(if $(RELEASE),--release $(RELEASE)) $(if $(ONLY),--only "$(ONLY)")

screenshots: $(VENV)/.ready-dev
	@PYKRUISE_PICTURES=docs/dashboard PYKRUISE_OTHER_PICTURES=dist/pictures $(BIN)/python -m pytest -q -n0 --exhaustive tests/scenarios/test_dashboard_pages.py -k "pictures or thousand"

simulate: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m simulation --seeds $(SEEDS) --first $(FIRST) $(if $(PROCESSES),--processes $(PROCESSES))

explore: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m exploration --pods $(or $(PODS),2) $(if $(KIND),--kind $(KIND)) $(if $(MOST),--most $(MOST)) $(if $(PROCESSES),--processes $(PROCESSES))

fuzz: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m fuzz --objects $(OBJECTS) --first $(FIRST)

simulate-mutations: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m simulation.mutations

mutate: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m mutation $(FILES) $(if $(PROCESSES),--processes $(PROCESSES)) $(MUTATE_ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
