#include "model/machine.h"

#include "base/text.h"
#include "model/run_spec.h"

namespace trainyard {
namespace {

constexpr size_t kNameMax = 63;  // Of a host, as DNS has it.

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string queue_of(const Machine& machine) {
  RunSpec spec;
  if (machine.personal) {
    spec.host = machine.key;
  } else {
    spec.workspace = machine.workspace;
    spec.target = machine.name;
  }
  return queue_of(spec);
}

std::string name_from_host(std::string_view host) {
  std::string name(host.substr(0, std::min(host.find('.'), kNameMax)));
  for (char& c : name) {
    if (!is_plain(c) && c != '-' && c != '_') c = '-';
  }
  if (name.empty() || !is_plain(name.front())) name = "machine" + name;
  return name == kLocalQueue || name == kServerTarget || name == "localhost" ? "machine-" + name
                                                                             : name;
}

std::optional<AttemptId> attempt_from(std::string_view text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const Result<int64_t> number = parse_int(text.substr(dot + 1), "attempt");
  if (!number || *number < 1 || *number > INT32_MAX) return std::nullopt;
  AttemptId id{RunId{std::string(text.substr(0, dot))}, static_cast<int>(*number)};
  if (!check_name(id.run.value, "run")) return std::nullopt;
  return id;
}

}  // namespace trainyard
