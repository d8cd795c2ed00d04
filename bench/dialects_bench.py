"""The figures of job files and run configurations, as rows of bench.py's table."""
import pathlib
import statistics
import subprocess
import time

TRAINYARD = str(pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "trainyard")
FILES = 1000

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
command: >-
  python train.py --lr ${{inputs.learning_rate}} --epochs ${{inputs.epochs}}
  --data-format ${{inputs.format}} --model ${{outputs.model}}
inputs:
  learning_rate: 0.01
  epochs: 25
  format: webdataset
outputs:
  model:
    type: uri_folder
environment_variables:
  OMP_NUM_THREADS: 8
  RUN_NAME: trial-${{name}}
compute: azureml:local
resources:
  instance_count: 1
  shm_size: 2g
distribution:
  type: pytorch
  process_count_per_instance: 4
limits:
  timeout: 86400
queue_settings:
  priority: high
display_name: pytorch-trial
experiment_name: ants-and-bees
description: Trains a network, number NUMBER.
tags:
  stage: first
  number: NUMBER
"""

# As the generator of old wrote it: most of it comments and defaults.
RUNCONFIG = """\
# The script to run.
script: train.py
# The arguments to the script file.
arguments: [--epochs, 25, --lr, 0.01, --number, NUMBER]
# The name of the compute target to use for this run.
target: local
# Framework to execute inside. Allowed values are "Python", "PySpark", "CNTK", "TensorFlow", and "PyTorch".
framework: PyTorch
# Communicator for the given framework.
communicator: None
# Automatically prepare the run environment as part of the run itself.
autoPrepareEnvironment: true
# Maximum allowed duration for the run.
maxRunDurationSeconds:
# Number of nodes to use for running job.
nodeCount: 1
# Environment details.
environment:
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
  python:
    userManagedDependencies: true
    interpreterPath: python
    condaDependenciesFile: aml_config/train-conda.yml
    baseCondaEnvironment:
  docker:
    enabled: false
    baseImage: mcr.microsoft.com/azureml/base:0.2.4
    sharedVolumes: true
    gpuSupport: false
    shmSize: 1g
    arguments: []
    baseImageRegistry:
      address:
      username:
      password:
  spark:
    repositories: []
    packages: []
    precachePackages: true
# History details.
history:
  outputCollection: true
  snapshotProject: true
  directoriesToWatch:
  - logs
# Spark configuration details.
spark:
  configuration:
    spark.app.name: Azure ML Experiment
    spark.yarn.maxAppAttempts: 1
# HDI details.
hdi:
  yarnDeployMode: cluster
# Tensorflow details.
tensorflow:
  workerCount: 1
  parameterServerCount: 1
# Mpi details.
mpi:
  processCountPerNode: 1
# data reference configuration details
dataReferences: {}
# Project share datastore reference.
sourceDirectoryDataStore:
"""


def timed(command, repeat):
    """Median seconds of the whole process."""
    times = []
    for _ in range(repeat):
        start = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        times.append(time.monotonic() - start)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[:4])}: {done.stderr}")
    return statistics.median(times)


def dialects(scratch):
    folder = pathlib.Path(scratch) / "dialects"
    (folder / "jobs").mkdir(parents=True)
    for number in range(FILES):
        (folder / "jobs" / f"{number}.yml").write_text(JOB.replace("NUMBER", str(number)))
    config = folder / "train.runconfig"
    config.write_text(RUNCONFIG.replace("NUMBER", "0"))
    validate = [TRAINYARD, "job", "validate", "-o", "none", "-f"]
    nothing = timed([TRAINYARD, "--version"], 30)
    for what, file in (("job file", folder / "jobs" / "0.yml"), ("run configuration", config)):
        ours = timed([*validate, str(file)], 30)
        yield (f"check one {what}, whole process", f"{ours * 1e3:.1f} ms", f"--version {nothing * 1e3:.1f} ms",
               ours / nothing, "<= 5 ms", ours <= 0.005)
    ours = timed([*validate, str(folder / "jobs")], 5)
    cat = timed(["sh", "-c", f"cat {folder}/jobs/* > /dev/null"], 5)
    yield (f"check {FILES:,} job files by one command", f"{ours * 1e3:.0f} ms, {ours / FILES * 1e6:.0f} us each",
           f"cat {cat * 1e3:.0f} ms", ours / cat, "<= 2 s", ours <= 2)
