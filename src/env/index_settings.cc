#include "env/index_settings.h"

#include <array>
#include <sstream>

#include "base/text.h"

namespace trainyard::env {
namespace {

enum class Form { one, words, comma_paths };

struct Setting {
  std::string_view pip;  // In a file; "PIP_INDEX_URL" as a variable.
  const char* variable;  // Of pip.
  const char* uv;
  Form form;
};

constexpr auto kSettings = std::to_array<Setting>({
    {"index-url", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", Form::one},
    {"extra-index-url", "PIP_EXTRA_INDEX_URL", "UV_INDEX", Form::words},
    {"find-links", "PIP_FIND_LINKS", "UV_FIND_LINKS", Form::comma_paths},
    {"no-index", "PIP_NO_INDEX", "UV_NO_INDEX", Form::one},
    {"trusted-host", "PIP_TRUSTED_HOST", "UV_INSECURE_HOST", Form::words},
    {"cert", "PIP_CERT", "SSL_CERT_FILE", Form::one},
    {"proxy", "PIP_PROXY", "ALL_PROXY", Form::one},
});

// [global] and [install] of a pip.conf; a value may go on in lines that are indented.
void read_file_into(Variables& values, const fs::path& file) {
  const auto text = read_file(file);
  if (!text) return;
  bool ours = false;
  std::string* last = nullptr;
  for (const std::string& line : split(*text, '\n')) {
    const std::string_view content = trim(line);
    if (content.empty() || content.starts_with('#') || content.starts_with(';')) continue;
    if (content.starts_with('[')) {
      ours = content == "[global]" || content == "[install]";
      last = nullptr;
    } else if ((line.starts_with(' ') || line.starts_with('\t')) && last != nullptr) {
      *last += " " + std::string(content);
    } else if (const size_t equals = content.find_first_of("=:"); ours && equals != content.npos) {
      std::string key(trim(content.substr(0, equals)));
      for (char& c : key) c = c == '_' ? '-' : c;
      last = &values[key];
      *last = trim(content.substr(equals + 1));
    }
  }
}

// As pip reads them: a later one wins.
Variables pip_files(const Variables& variables, const fs::path& system_file) {
  Variables values;
  const std::string chosen = variable(variables, "PIP_CONFIG_FILE");
  if (chosen == "/dev/null") return values;
  read_file_into(values, system_file);
  if (const std::string home = variable(variables, "HOME"); !home.empty()) {
    read_file_into(values, fs::path(home) / ".pip" / "pip.conf");
    const std::string config = variable(variables, "XDG_CONFIG_HOME");
    read_file_into(values, (config.empty() ? fs::path(home) / ".config" : fs::path(config)) /
                               "pip" / "pip.conf");
  }
  if (!chosen.empty()) read_file_into(values, chosen);
  return values;
}

// pip passes over a folder that is not there; for uv it is an error.
std::string in_form(const std::string& value, Form form) {
  std::string text;
  std::istringstream words(value);
  for (std::string word; words >> word;) {
    std::error_code none;
    const bool path = form == Form::comma_paths && word.find("://") == std::string::npos;
    if (path && !fs::exists(word, none)) continue;
    if (!text.empty()) text += form == Form::comma_paths ? "," : " ";
    text += word;
  }
  return text;
}

}  // namespace

void add_pip_settings(Variables& variables, const fs::path& system_file) {
  for (const auto& [key, value] : pip_files(variables, system_file)) {
    std::string name = "PIP_";
    for (const char c : key) {
      name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    }
    if (!value.empty()) variables.try_emplace(std::move(name), value);
  }
}

void add_index_settings(Variables& variables, const fs::path& system_file) {
  const Variables files = pip_files(variables, system_file);
  const bool uv_has_index = variables.contains("UV_INDEX_URL");
  for (const Setting& setting : kSettings) {
    if (variables.contains(setting.uv)) continue;
    if (uv_has_index && std::string_view(setting.uv) == "UV_DEFAULT_INDEX") continue;
    std::string value = variable(variables, setting.variable);
    if (value.empty()) value = variable(files, std::string(setting.pip));
    value = in_form(value, setting.form);
    if (value.empty()) continue;
    variables[setting.uv] = value;
    // Of several indexes pip takes the best of all; uv stops at the first that has a name.
    if (setting.form == Form::words && setting.pip == "extra-index-url") {
      variables.try_emplace("UV_INDEX_STRATEGY", "unsafe-best-match");
    }
  }
}

}  // namespace trainyard::env
