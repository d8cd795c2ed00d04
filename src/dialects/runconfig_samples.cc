// What `folder attach` writes, so that there is something to start from.
#include "dialects/runconfig.h"

namespace trainyard::dialects {

std::string_view sample_runconfig() {
  return R"(# Runs train.py on this machine, with the Python that is there:
#   trainyard run submit-script -c local -e my-experiment
# Every key is explained in docs/dialects/runconfig.md.

# The script to run, from the source folder, and its arguments.
script: train.py
arguments: []
# Where it runs.
target: local
# Python, PyTorch, TensorFlow or CNTK.
framework: Python
# None; Nccl or Gloo for several ranks of PyTorch; Mpi for those of MPI.
communicator: None
# Seconds after which the run is canceled; empty: none.
maxRunDurationSeconds:
nodeCount: 1
environment:
  # Variables of the run.
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
  python:
    # true: the interpreter below is used as it is, and nothing is installed.
    userManagedDependencies: true
    interpreterPath: python
    # What to install when userManagedDependencies is false.
    condaDependenciesFile: .azureml/conda_dependencies.yml
  docker:
    # true: the run is in a container.
    enabled: false
history:
  # Keeps what the script writes to outputs/.
  outputCollection: true
)";
}

std::string_view sample_conda_dependencies() {
  return R"(# The Python packages of a run, for run configurations whose
# userManagedDependencies is false.
name: project_environment
dependencies:
- python=3.11
- pip:
  - numpy
)";
}

}  // namespace trainyard::dialects
