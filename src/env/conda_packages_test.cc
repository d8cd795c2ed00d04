#include "env/conda_packages.h"

#include <doctest/doctest.h>

namespace trainyard::env {
namespace {

using Lines = std::vector<std::string>;

Environment conda(Lines packages) {
  Environment environment;
  environment.recipe.kind = EnvironmentKind::conda;
  environment.recipe.conda = std::move(packages);
  return environment;
}

TEST_CASE("a package of conda's is read in all the ways it is written") {
  const auto read = [](std::string_view line) {
    const CondaPackage package = parse_conda_package(line);
    return package.channel + "|" + package.name + "|" + package.version +
           (package.exact ? "!" : "");
  };
  CHECK(read("numpy") == "|numpy|");
  CHECK(read("NumPy=1.19") == "|numpy|1.19");
  CHECK(read("numpy==1.19.2") == "|numpy|1.19.2!");
  CHECK(read("numpy=1.19.2=py38h54aff64_0") == "|numpy|1.19.2!");
  CHECK(read("numpy 1.19.2 py38_0") == "|numpy|1.19.2!");
  CHECK(read("numpy >=1.19, <2") == "|numpy|>=1.19,<2");
  CHECK(read("conda-forge::numpy=1.*") == "conda-forge|numpy|1.*");
  CHECK(read("numpy[version='>=1.8']") == "|numpy|>=1.8");
}

TEST_CASE("a file of Python packages becomes a virtual environment") {
  Environment environment =
      conda({"numpy=1.19  # env.yml:3", "pytorch==1.7.1", "scikit-learn>=0.23,<1", "pip",
             "ruamel_yaml", "openssl=1.1.1k=h27cfd23_0", "_libgcc_mutex=0.1=main",
             "pandas=1.1.3=py38_0", "scipy 1.5.*", "tqdm", "jinja2=3.0rc1"});
  environment.recipe.python = "3.8.10";
  environment.recipe.channels = {"defaults"};
  environment.recipe.requirements = {"flask==1.1  # env.yml:20"};
  const auto made = as_venv(environment);
  REQUIRE_MESSAGE(made, made.error().message);
  const Recipe& recipe = made->environment.recipe;
  CHECK(recipe.kind == EnvironmentKind::venv);
  CHECK(recipe.python == "3.8");
  CHECK(recipe.requirements == Lines{"flask==1.1  # env.yml:20", "numpy==1.19.*  # env.yml:3",
                                     "torch==1.7.1", "scikit-learn>=0.23,<1", "ruamel.yaml",
                                     "pandas==1.1.3", "scipy==1.5.*", "tqdm", "jinja2==3.0rc1"});
  CHECK(recipe.channels.empty());
  CHECK(made->left_out == Lines{"pip", "openssl=1.1.1k=h27cfd23_0", "_libgcc_mutex=0.1=main"});
}

TEST_CASE("packages that no index of Python's has are all named, with what to do") {
  const auto made = as_venv(conda({"numpy", "cudatoolkit=11.1  # env.yml:4", "ffmpeg", "gcc"}));
  REQUIRE(!made);
  CHECK(made.error().kind == ErrorKind::invalid);
  CHECK(made.error().message ==
        "no conda is on the server's machine, and these are not packages of Python's index: "
        "env.yml:4: cudatoolkit=11.1; ffmpeg; gcc");
  CHECK(made.error().hint.find("micromamba") != std::string::npos);
  CHECK(!as_venv(conda({"numpy=1.18|1.19"})));
}

}  // namespace
}  // namespace trainyard::env
