#include "env/build_image_layer.h"

#include "base/text.h"
#include "env/conda_packages.h"
#include "env/lock.h"
#include "env/programs.h"
#include "model/requirement.h"

namespace trainyard::env {
namespace {

// An engine hands these on to every build, and forgets them afterwards.
constexpr const char* kProxies[] = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
                                    "http_proxy", "https_proxy", "no_proxy", "all_proxy"};
// The machine's own settings of pip.
constexpr const char* kPip[] = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST",
                                "PIP_FIND_LINKS", "PIP_NO_INDEX"};
constexpr const char* kCertificates[] = {"PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
                                         "CURL_CA_BUNDLE"};

// Whoever makes images has its own idea of where Python is, and of who may install into it.
constexpr std::string_view kBegin = R"(set -e
cd /trainyard
die() { echo "error: $1"; exit 1; }
if [ -e ca.pem ]; then export PIP_CERT=$PWD/ca.pem SSL_CERT_FILE=$PWD/ca.pem; fi
)";
// A conda file's python=, as conda reads it: "3.8" is any 3.8.x, ">=3.8,<3.10" is a range. Another
// interpreter cannot be put beside the packages of an image.
constexpr std::string_view kCheckPython = R"(import sys

def numbers(text):
    return [int(part) for part in text.split(".") if part.isdigit()]

def fits(one, has):
    op = one[:len(one) - len(one.lstrip("<>=!~"))]
    want = numbers(one[len(op):])
    same = has[:len(want)] == want
    if op in (">", ">=", "<", "<="):
        return (op.endswith("=") and same) or (not same and (has > want) == (op[0] == ">"))
    return same != (op == "!=")

wanted = open("python.txt").read().strip()
has = list(sys.version_info[:3])
if not all(fits(one.strip(), has) for one in wanted.split(",")):
    print("error: the conda file asks for python %s, and the image has %s: name an image with that "
          "Python, or leave python out of the file" % (wanted, ".".join(map(str, has))))
    sys.exit(1)
)";
constexpr std::string_view kFindPython = R"(
py=$(command -v python3 || command -v python) || die "the image has no Python"
)";
constexpr std::string_view kInstallConda = R"(
conda=$(command -v mamba || command -v conda || command -v micromamba) ||
  die "the image has no conda"
case $conda in
  *micromamba) "$conda" install -y -n base -f conda.yml ;;
  *) "$conda" env update -n base -f conda.yml ;;
esac
)";
constexpr std::string_view kInstallPip = R"(
"$py" -m pip --version > /dev/null 2>&1 || die "the Python of the image has no pip"
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
"$py" -m pip install -r requirements.txt -c constraints.txt
)";
constexpr std::string_view kEnd = "cd /\nrm -r /trainyard\n";

std::string conda_file(const Recipe& recipe) {
  std::string text = "name: base\n";
  if (!recipe.channels.empty()) text += "channels:\n";
  for (const std::string& channel : recipe.channels) text += "  - " + channel + "\n";
  text += "dependencies:\n";
  for (const std::string& line : recipe.conda) {
    const CondaPackage package = parse_conda_package(line);
    if (package.name == "python" || package.name == "pip") continue;  // Those of the image.
    text += "  - " + std::string(trim(line.substr(0, line.find('#')))) + "\n";
  }
  return text;
}

bool has_conda(const Recipe& recipe) {
  for (const std::string& line : recipe.conda) {
    const std::string name = parse_conda_package(line).name;
    if (name != "python" && name != "pip") return true;
  }
  return false;
}

// pip takes its options in the file too; "--constraint numpy<2" is ours, a line in a second file.
void add_requirements(const Environment& environment, ImageLayer& layer) {
  std::string& text = layer.files["requirements.txt"];
  layer.files["constraints.txt"];
  for (const std::string& line : environment.recipe.options) {
    const auto option = parse_pip_option(line);
    if (option && option->name == "--constraint") {
      layer.files["constraints.txt"] += option->value + "\n";
    } else {
      text += line + "\n";
    }
  }
  for (const std::string& line : environment.recipe.requirements) text += line + "\n";
}

// Of a network that looks into what passes.
void add_certificates(const Settings& settings, ImageLayer& layer) {
  for (const char* name : kCertificates) {
    const std::string path = variable(settings.variables, name);
    if (path.empty() || layer.files.contains("ca.pem")) continue;
    if (auto bytes = read_file(path)) layer.files["ca.pem"] = *std::move(bytes);
  }
}

}  // namespace

ImageLayer packages_layer(const Environment& environment, const std::string& image,
                          const ImageConfig& config, const Settings& settings) {
  const Recipe& recipe = environment.recipe;
  ImageLayer layer;
  layer.arguments = proxy_arguments(settings);
  std::string text = "FROM " + image + "\nUSER root\n";
  std::string script(kBegin);
  if (!recipe.python.empty() || !recipe.requirements.empty()) script += kFindPython;
  if (!recipe.python.empty()) {
    layer.files["check_python.py"] = kCheckPython;
    layer.files["python.txt"] = recipe.python;
    script += "\"$py\" check_python.py\n";
  }
  if (has_conda(recipe)) {
    layer.files["conda.yml"] = conda_file(recipe);
    script += kInstallConda;
  }
  if (!recipe.requirements.empty()) {
    add_requirements(environment, layer);
    script += kInstallPip;
    for (const char* name : kPip) {
      const std::string value = variable(settings.variables, name);
      if (value.empty()) continue;
      layer.arguments[name] = value;
      text += std::string("ARG ") + name + "\n";
    }
  }
  layer.files["install"] = script + std::string(kEnd);
  add_certificates(settings, layer);
  for (const auto& [name, bytes] : layer.files) text += "COPY " + name + " /trainyard/\n";
  text += "RUN sh /trainyard/install\n";
  if (!config.user.empty()) text += "USER " + config.user + "\n";
  layer.files["Dockerfile"] = std::move(text);
  return layer;
}

std::map<std::string, std::string> proxy_arguments(const Settings& settings) {
  std::map<std::string, std::string> arguments;
  for (const char* name : kProxies) {
    const std::string value = variable(settings.variables, name);
    if (!value.empty()) arguments[name] = value;
  }
  return arguments;
}

}  // namespace trainyard::env
