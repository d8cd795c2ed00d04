#include "env/conda_packages.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "model/requirement.h"

namespace trainyard::env {
namespace {

struct Renamed {
  std::string_view conda;
  std::string_view index;
};

// Python packages with another name on Python's index.
constexpr auto kRenamed = std::to_array<Renamed>({
    {"dask-core", "dask"},
    {"faiss", "faiss-cpu"},
    {"matplotlib-base", "matplotlib"},
    {"msgpack-python", "msgpack"},
    {"opencv", "opencv-python-headless"},
    {"py-opencv", "opencv-python-headless"},
    {"py-xgboost", "xgboost"},
    {"py-xgboost-cpu", "xgboost"},
    {"pyqt", "pyqt5"},
    {"pytables", "tables"},
    {"python-flatbuffers", "flatbuffers"},
    {"python-graphviz", "graphviz"},
    {"pytorch", "torch"},
    {"pytorch-cpu", "torch"},
    {"pytorch-gpu", "torch"},
    {"ruamel-yaml", "ruamel.yaml"},
    {"seaborn-base", "seaborn"},
    {"tensorflow-base", "tensorflow"},
    {"tensorflow-cpu", "tensorflow"},
    {"tensorflow-gpu", "tensorflow"},
});

// Python packages that have the same name there. A conda package of no name in these tables is
// taken for what it may be: a program or a library that no index of Python's has.
constexpr auto kSame = std::to_array<std::string_view>({
    "absl-py",
    "accelerate",
    "aiohttp",
    "altair",
    "anyio",
    "appdirs",
    "argon2-cffi",
    "astunparse",
    "async-timeout",
    "attrs",
    "autopep8",
    "azure-core",
    "azure-identity",
    "azure-storage-blob",
    "babel",
    "backcall",
    "backports",
    "bcrypt",
    "beautifulsoup4",
    "black",
    "bleach",
    "blinker",
    "blosc2",
    "bokeh",
    "boto3",
    "botocore",
    "bottleneck",
    "brotlipy",
    "cachetools",
    "catboost",
    "certifi",
    "cffi",
    "chardet",
    "charset-normalizer",
    "click",
    "cloudpickle",
    "colorama",
    "colorlog",
    "coverage",
    "cryptography",
    "cycler",
    "cython",
    "dask",
    "datasets",
    "debugpy",
    "decorator",
    "deepspeed",
    "defusedxml",
    "dill",
    "distributed",
    "docker",
    "docker-py",
    "docutils",
    "einops",
    "entrypoints",
    "et-xmlfile",
    "evaluate",
    "executing",
    "faiss-cpu",
    "fastapi",
    "fastprogress",
    "filelock",
    "flake8",
    "flask",
    "fonttools",
    "frozenlist",
    "fsspec",
    "future",
    "gast",
    "gensim",
    "gitdb",
    "gitpython",
    "google-auth",
    "google-auth-oauthlib",
    "google-pasta",
    "greenlet",
    "grpcio",
    "gunicorn",
    "gym",
    "h5py",
    "holoviews",
    "huggingface-hub",
    "hydra-core",
    "hyperopt",
    "idna",
    "imageio",
    "imbalanced-learn",
    "importlib-metadata",
    "importlib-resources",
    "iniconfig",
    "ipykernel",
    "ipython",
    "ipywidgets",
    "isodate",
    "isort",
    "itsdangerous",
    "jax",
    "jaxlib",
    "jedi",
    "jinja2",
    "jmespath",
    "joblib",
    "json5",
    "jsonschema",
    "jupyter",
    "jupyter-client",
    "jupyter-core",
    "jupyterlab",
    "keras",
    "keras-applications",
    "keras-preprocessing",
    "kiwisolver",
    "lightgbm",
    "lightning",
    "llvmlite",
    "locket",
    "lxml",
    "mako",
    "markdown",
    "markdown-it-py",
    "markupsafe",
    "matplotlib",
    "matplotlib-inline",
    "mccabe",
    "mdurl",
    "mistune",
    "mlflow",
    "mlflow-skinny",
    "mock",
    "mpmath",
    "msgpack",
    "msrest",
    "multidict",
    "multiprocess",
    "mypy",
    "mypy-extensions",
    "nbclient",
    "nbconvert",
    "nbformat",
    "nest-asyncio",
    "networkx",
    "nltk",
    "notebook",
    "numba",
    "numexpr",
    "numpy",
    "oauthlib",
    "omegaconf",
    "openpyxl",
    "opt-einsum",
    "optuna",
    "packaging",
    "pandas",
    "pandocfilters",
    "paramiko",
    "parso",
    "partd",
    "pathspec",
    "patsy",
    "pexpect",
    "pickleshare",
    "pillow",
    "platformdirs",
    "plotly",
    "pluggy",
    "portalocker",
    "prometheus-client",
    "prompt-toolkit",
    "protobuf",
    "psutil",
    "ptyprocess",
    "pure-eval",
    "py",
    "pyarrow",
    "pyasn1",
    "pyasn1-modules",
    "pycodestyle",
    "pycparser",
    "pydantic",
    "pyflakes",
    "pygments",
    "pyjwt",
    "pylint",
    "pymongo",
    "pynacl",
    "pyopenssl",
    "pyparsing",
    "pyrsistent",
    "pysocks",
    "pytest",
    "pytest-cov",
    "python-dateutil",
    "python-dotenv",
    "pytorch-lightning",
    "pytz",
    "pywavelets",
    "pyyaml",
    "pyzmq",
    "ray",
    "regex",
    "requests",
    "requests-oauthlib",
    "responses",
    "rich",
    "rsa",
    "s3transfer",
    "sacremoses",
    "safetensors",
    "scikit-image",
    "scikit-learn",
    "scipy",
    "seaborn",
    "send2trash",
    "sentencepiece",
    "setuptools",
    "shap",
    "simplejson",
    "six",
    "smmap",
    "sniffio",
    "soupsieve",
    "spacy",
    "sqlalchemy",
    "starlette",
    "statsmodels",
    "sympy",
    "tables",
    "tabulate",
    "tblib",
    "tenacity",
    "tensorboard",
    "tensorboard-plugin-wit",
    "tensorboardx",
    "tensorflow",
    "tensorflow-datasets",
    "tensorflow-estimator",
    "tensorflow-probability",
    "termcolor",
    "terminado",
    "threadpoolctl",
    "tifffile",
    "timm",
    "tokenizers",
    "toml",
    "tomli",
    "toolz",
    "torchaudio",
    "torchmetrics",
    "torchtext",
    "torchvision",
    "tornado",
    "tqdm",
    "traitlets",
    "transformers",
    "typer",
    "typing",
    "typing-extensions",
    "ujson",
    "urllib3",
    "uvicorn",
    "wandb",
    "wcwidth",
    "webencodings",
    "websocket-client",
    "werkzeug",
    "wheel",
    "wrapt",
    "xarray",
    "xgboost",
    "xlrd",
    "xlsxwriter",
    "xxhash",
    "yarl",
    "zict",
    "zipp",
});

// What conda has as packages and an interpreter or a wheel has inside; and pip, which would change
// what other runs share.
constexpr auto kInside = std::to_array<std::string_view>({
    "-libgcc-mutex",
    "-openmp-mutex",
    "blas",
    "bzip2",
    "ca-certificates",
    "intel-openmp",
    "ld-impl-linux-64",
    "libblas",
    "libcblas",
    "libffi",
    "libgcc",
    "libgcc-ng",
    "libgfortran-ng",
    "libgfortran5",
    "libgomp",
    "liblapack",
    "libnsl",
    "libopenblas",
    "libsqlite",
    "libstdcxx",
    "libstdcxx-ng",
    "libuuid",
    "libxcrypt",
    "libzlib",
    "mkl",
    "mkl-fft",
    "mkl-random",
    "mkl-service",
    "ncurses",
    "nomkl",
    "numpy-base",
    "openssl",
    "pip",
    "python-abi",
    "readline",
    "sqlite",
    "tk",
    "tzdata",
    "xz",
    "zlib",
});

// "=1.19", "==1.19.2", "=1.19.2=py38_0", " 1.19.*", ">=1.19,<2", "[version='>=1.8']".
void read_version(std::string_view rest, CondaPackage& package) {
  rest = trim(rest);
  if (rest.starts_with('[')) {
    const size_t at = rest.find("version=");
    if (at == std::string_view::npos) return;
    rest = rest.substr(at + 8);
    rest = rest.substr(0, rest.find_first_of("],"));
    while (!rest.empty() && (rest.front() == '\'' || rest.front() == '"')) rest.remove_prefix(1);
    while (!rest.empty() && (rest.back() == '\'' || rest.back() == '"')) rest.remove_suffix(1);
  }
  package.exact = rest.starts_with("==");
  while (rest.starts_with('=')) rest.remove_prefix(1);
  rest = trim(rest);
  const bool compares =
      !rest.empty() && std::string_view("<>!~").find(rest.front()) != std::string_view::npos;
  // The build's name follows the version: "1.19.2=py38_0", "1.19.2 py38_0".
  const size_t build = compares ? std::string_view::npos : rest.find_first_of("= ");
  package.exact = package.exact || build != std::string_view::npos;
  for (const char c : rest.substr(0, build)) {
    if (c != ' ') package.version += c;
  }
}

// As pip writes it; empty where it cannot be said ("1.18|1.19").
std::string index_version(const CondaPackage& package) {
  const std::string& version = package.version;
  if (version.empty() || version == "*") return "";
  if (std::string_view("<>!~").find(version.front()) != std::string_view::npos) return version;
  const bool plain = version.find_first_not_of("0123456789.") == std::string::npos;
  return package.exact || !plain ? "==" + version : "==" + version + ".*";
}

// Its name on Python's index; empty where it is no Python package.
std::string_view index_name(const std::string& name) {
  const auto renamed = std::ranges::find(kRenamed, name, &Renamed::conda);
  if (renamed != kRenamed.end()) return renamed->index;
  const auto same = std::ranges::find(kSame, name);
  return same == kSame.end() ? std::string_view() : *same;
}

// A conda export names every patch of Python; those differ in nothing that packages see.
std::string minor_version(const std::string& python) {
  const std::vector<std::string> parts = split(python, '.');
  const bool plain = python.find_first_not_of("0123456789.") == std::string::npos;
  return plain && parts.size() > 2 ? parts[0] + "." + parts[1] : python;
}

}  // namespace

CondaPackage parse_conda_package(std::string_view line) {
  const Requirement requirement = parse_requirement(line);
  std::string_view text = requirement.text;
  CondaPackage package;
  package.place = requirement.place;
  if (const size_t channel = text.find("::"); channel != std::string_view::npos) {
    package.channel = text.substr(0, channel);
    text.remove_prefix(channel + 2);
  }
  const size_t end = std::min(text.find_first_of(" \t=<>!~["), text.size());
  for (const char c : text.substr(0, end)) {
    package.name += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  read_version(text.substr(end), package);
  return package;
}

Result<AsVenv> as_venv(const Environment& environment) {
  AsVenv found{environment, {}};
  Recipe& recipe = found.environment.recipe;
  recipe.kind = EnvironmentKind::venv;
  recipe.python = minor_version(recipe.python);
  recipe.channels.clear();
  recipe.conda.clear();
  std::vector<std::string> others;
  for (const std::string& line : environment.recipe.conda) {
    const CondaPackage package = parse_conda_package(line);
    const std::string text = parse_requirement(line).text;
    const std::string name = package_name(package.name);
    if (text.empty()) continue;
    if (std::ranges::find(kInside, name) != kInside.end()) {
      found.left_out.push_back(text);
      continue;
    }
    const std::string_view index = index_name(name);
    const bool sayable = package.version.find('|') == std::string::npos;
    if (index.empty() || !sayable) {
      others.push_back(package.place.empty() ? text : package.place + ": " + text);
      continue;
    }
    recipe.requirements.push_back(
        with_place(std::string(index) + index_version(package), package.place));
  }
  if (others.empty()) return found;
  return fail(
      ErrorKind::invalid,
      "no conda is on the server's machine, and these are not packages of Python's index: " +
          join(others, "; "),
      "Install micromamba there (one file, in the server's PATH), or take them from an "
      "image: --image, or a Dockerfile.");
}

}  // namespace trainyard::env
