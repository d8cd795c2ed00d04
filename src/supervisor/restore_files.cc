#include <fcntl.h>

#include "base/text.h"
#include "client/api.h"
#include "client/blobs.h"
#include "supervisor/node_files.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

Status restore_outputs(Context& context, http::Client& client) {
  if (context.assignment.outputs.empty()) return {};
  TRY_SET(const Digest digest, Digest::from_hex(context.assignment.outputs));
  TRY_SET(const std::string text, client::fetch_text(client, digest));
  TRY_SET(const snapshot::Tree merged, snapshot::decode(text));
  const snapshot::Tree tree =
      context.assignment.spec.nodes > 1 ? tree_of_node(merged, context.assignment.node) : merged;
  TRY(client::download_tree(client, tree, context.layout.outputs()));
  context.log.line("outputs of the attempt before: " + std::to_string(tree.files()) + " files");
  return {};
}

Status restore_log(client::Api& api, const RunId& run, const std::string& path,
                   const fs::path& local) {
  TRY(make_dirs(local.parent_path()));
  TRY_SET(const Fd file, open_file(local, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644));
  uint64_t from = 0;
  for (;;) {
    TRY_SET(const client::FilePart part, api.file(run, path, from, 0, [&](std::string_view bytes) {
      return write_all(file.get(), bytes, path);
    }));
    if (part.next == from) return {};
    from = part.next;
  }
}

Status restore_logs(Context& context, client::Api& api) {
  const RunId run{context.assignment.run};
  TRY_SET(const wire::Json files, api.files(run));
  for (const wire::Json& file : files) {
    TRY_SET(const std::string kind, wire::string_member(file, "kind"));
    TRY_SET(const std::string path, wire::string_member(file, "path"));
    if (kind != "log" || !path.starts_with("logs/")) continue;
    TRY(check_relative_path(path));
    const std::optional<std::string> local = log_of_node(path, context.assignment);
    if (local) TRY(restore_log(api, run, path, context.layout.work() / *local));
  }
  return {};
}

}  // namespace

// outputs/ and logs/ are as the attempt before left them: a script that looks for its own finds it.
Status restore_files(Context& context) {
  if (context.assignment.attempt <= 1) return {};
  return context.try_until_answered([&]() -> Status {
    client::Api api(http::Client(context.server(), context.assignment.token));
    TRY(restore_outputs(context, api.http()));
    return restore_logs(context, api);
  });
}

}  // namespace trainyard::supervisor
