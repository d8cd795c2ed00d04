#include "env/build_image.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/text.h"
#include "container/engine_api.h"
#include "container/image_digest.h"
#include "container/image_file.h"
#include "container/image_tags.h"
#include "container/unpack.h"
#include "env/build_image_context.h"
#include "env/build_image_layer.h"
#include "env/dockerfile.h"
#include "env/engine_images.h"
#include "env/explain.h"
#include "env/programs.h"

namespace trainyard::env {
namespace {

using container::Credentials;
using container::EngineAddress;
using container::EngineApi;

constexpr milliseconds kLookForStop{250};
constexpr size_t kPrintedMax = 400;  // Lines of a step, for who explains why it failed.

// Ends what an engine does for us when it is wanted no more: a build may be silent for an hour.
class Stopper {
 public:
  Stopper(EngineApi& api, const Watcher& watcher)
      : thread_([this, &api, &watcher](const std::stop_token& stop) {
          while (!clock_.sleep_until(clock_.steady() + kLookForStop, stop)) {
            if (watcher.stopped()) api.interrupt();
          }
        }) {}

 private:
  MonotoneClock clock_;
  std::jthread thread_;
};

// Tells a watcher of a pull: how much of how many layers.
class PullWatch {
 public:
  explicit PullWatch(Watcher& watcher) : watcher_(watcher) {}
  Status operator()(const EngineApi::Progress& progress);

 private:
  struct Layer {
    uint64_t done = 0;
    uint64_t total = 0;
    bool whole = false;
    std::string text;
  };
  Watcher& watcher_;
  std::map<std::string, Layer> layers_;
  std::string told_;
};

// Tells a watcher of a build: its lines, and which step it is at.
class BuildWatch {
 public:
  explicit BuildWatch(Watcher& watcher) : watcher_(watcher) {}
  Status operator()(const EngineApi::Progress& progress);
  const std::vector<std::string>& printed() const { return printed_; }

 private:
  void line(std::string_view coloured);

  Watcher& watcher_;
  std::string rest_;
  std::vector<std::string> printed_;  // Of the step.
};

class ImageBuilder {
 public:
  ImageBuilder(const Environment& environment, const fs::path& folder, const Settings& settings,
               Watcher& watcher, EngineAddress engine)
      : environment_(environment),
        recipe_(environment.recipe),
        scratch_(folder / "build"),
        settings_(settings),
        watcher_(watcher),
        api_(std::move(engine)),
        stopper_(api_, watcher) {}
  Result<Realised> run();

 private:
  Result<Realised> make_named();
  Status hide_fetched(const std::set<std::string>& before, const std::string& server);
  Result<std::string> make();
  Result<std::string> find_locked();
  bool has(const std::string& name);
  Status pull(const std::string& name);
  Result<std::string> fetch(const std::string& name);
  Result<std::string> fetch_named(const std::string& name);
  void refresh(const std::string& dockerfile);
  Result<std::string> load_layout(const std::string& reference);
  Status check_dockerfile(const std::string& dockerfile);
  Result<std::string> build_dockerfile();
  Result<std::string> build_layer();
  Result<std::string> build(const ImageContext& context,
                            std::map<std::string, std::string> arguments);
  Credentials credentials() const;

  const Environment& environment_;
  const Recipe& recipe_;
  const fs::path scratch_;
  const Settings& settings_;
  Watcher& watcher_;
  EngineApi api_;
  Stopper stopper_;
};

Credentials credentials_of(const Environment& environment, const Settings& settings) {
  return {.server = environment.registry.address,
          .username = environment.registry.username,
          .password = settings.registry_password};
}

container::UnpackOptions unpack_options(const Environment& environment, const Settings& settings,
                                        Watcher& watcher) {
  return {.credentials = credentials_of(environment, settings),
          .line = [&watcher](std::string_view text) { watcher.line(text); },
          .progress = [&watcher](std::string_view words) { watcher.progress(words); },
          .stopped = [&watcher] { return watcher.stopped(); },
          .folders = environment.image_folders};
}

// "docker-archive:/x.tar" -> "/x.tar"; empty: it does not begin so.
std::string rest_of(const std::string& reference, std::string_view kind) {
  return reference.starts_with(kind) ? reference.substr(kind.size()) : std::string();
}

// "registry.example:5000/a:1" of "https://registry.example:5000/v2". Docker's own registry is not
// in the names of its images.
bool is_of_registry(const std::string& name, std::string server) {
  if (const size_t scheme = server.find("://"); scheme != server.npos) server.erase(0, scheme + 3);
  server = server.substr(0, server.find('/'));
  if (name.starts_with(server + "/")) return true;
  if (name.starts_with('<')) return false;  // "<none>:<none>"
  const std::string first = name.substr(0, name.find('/'));
  const bool has_host = name.find('/') != name.npos && first.find_first_of(".:") != first.npos;
  return server.ends_with("docker.io") && (!has_host || first == "docker.io");
}

// docker colours what a step says on stderr: "\x1b[91m…\x1b[0m".
std::string without_colours(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("\x1b[")) {
      i = std::min(text.find('m', i), text.size());
    } else if (text[i] != '\r') {
      plain += text[i];
    }
  }
  return plain;
}

bool is_built(const Recipe& recipe) {
  return !recipe.dockerfile.empty() || !recipe.context.empty() || !recipe.requirements.empty() ||
         !recipe.conda.empty() || !recipe.python.empty();
}

// "python:3.11" by the digest that the registry had for it when the run was submitted.
std::string pinned_name(const Recipe& recipe) {
  if (recipe.image_digest.empty()) return recipe.image;
  return container::split_image_name(recipe.image).first + "@" + recipe.image_digest;
}

// An image that is a file has to be the one that the recipe's hash stands for.
Status check_image_file(const Environment& environment) {
  const Recipe& recipe = environment.recipe;
  const bool named =
      container::image_source(recipe.image).form == container::ImageSource::Form::named;
  if (recipe.image_digest.empty() || named) return {};
  TRY_SET(const std::string now, container::image_digest(recipe.image, environment.image_folders));
  if (now == recipe.image_digest) return {};
  return fail(ErrorKind::invalid, recipe.image + " has changed since the run was submitted",
              "Submit it again, which uses the image as it is now. A rerun of an earlier run needs "
              "the file as it was then.");
}

Result<Realised> unpack_without_engine(const Environment& environment, const fs::path& folder,
                                       const Settings& settings, Watcher& watcher,
                                       const Error& no_engine) {
  if (is_built(environment.recipe)) {
    return std::unexpected(Error(no_engine).within("build the image"));
  }
  TRY(check_image_file(environment));
  watcher.line("No container engine answers here: the image is unpacked for bubblewrap.");
  const bool named =
      container::image_source(environment.recipe.image).form == container::ImageSource::Form::named;
  auto unpacked =
      container::unpack_image(named ? pinned_name(environment.recipe) : environment.recipe.image,
                              folder / "root", unpack_options(environment, settings, watcher));
  if (!unpacked) {
    Error error = std::move(unpacked).error();
    if (error.hint.empty()) error.hint = no_engine.hint;
    return std::unexpected(std::move(error));
  }
  Realised realised{.kind = EnvironmentKind::container};
  realised.image = unpacked->id;
  realised.lock = {unpacked->id};
  realised.config = std::move(unpacked->config);
  return realised;
}

}  // namespace

Result<Realised> build_image(const Environment& environment, const fs::path& folder,
                             const Settings& settings, Watcher& watcher) {
  const auto engine = container::find_engine(settings.engine_socket, settings.variables);
  if (!engine && engine.error().kind != ErrorKind::unavailable) {
    return std::unexpected(engine.error());
  }
  if (!engine) {
    return unpack_without_engine(environment, folder, settings, watcher, engine.error());
  }
  return ImageBuilder(environment, folder, settings, watcher, *engine).run();
}

namespace {

Result<Realised> ImageBuilder::run() {
  TRY(make_dirs(scratch_));
  const Credentials used = credentials();
  const bool with_credential = !used.username.empty();
  std::set<std::string> before;
  if (with_credential) {
    TRY_SET(before, api_.image_names());
  }
  Result<Realised> made = make_named();
  // Also where it failed: a part may have been fetched.
  if (with_credential) TRY(hide_fetched(before, used.server));
  return made;
}

// What a password has fetched stays in the engine under our name alone: under the registry's it
// would be there for everybody who names it.
Status ImageBuilder::hide_fetched(const std::set<std::string>& before, const std::string& server) {
  // Tags first: with the last tag of a repository its digests go too, by the engine's own rules.
  for (const bool digests : {false, true}) {
    TRY_SET(const std::set<std::string> after, api_.image_names());
    for (const std::string& name : after) {
      if ((name.find('@') != name.npos) != digests || before.contains(name)) continue;
      if (may_be_anothers(name) || !is_of_registry(name, server)) continue;
      TRY(api_.remove_image(name));
    }
  }
  return {};
}

Result<Realised> ImageBuilder::make_named() {
  TRY_SET(const std::string name, make());
  TRY_SET(EngineApi::Image image, api_.image(name));
  TRY(api_.tag(image.id, image_tag(environment_.hash)));
  TRY(remove_tree(scratch_));
  Realised realised{.kind = EnvironmentKind::container};
  realised.image = image.id;
  realised.config = std::move(image.config);
  realised.bytes = image.bytes;
  realised.lock = {image.id};
  std::ranges::sort(image.digests);
  realised.lock.insert(realised.lock.end(), image.digests.begin(), image.digests.end());
  watcher_.line("image " + image.id + ", " + format_size(image.bytes));
  return realised;
}

Result<std::string> ImageBuilder::make() {
  TRY_SET(const std::string locked, find_locked());
  if (!locked.empty()) return locked;
  if (!recipe_.dockerfile.empty() || !recipe_.context.empty()) return build_dockerfile();
  if (recipe_.image.empty()) {
    return fail(ErrorKind::invalid, "the environment names neither an image nor a Dockerfile");
  }
  if (is_built(recipe_)) return build_layer();
  return fetch(recipe_.image);
}

// The very image of an earlier run, where it can still be had.
Result<std::string> ImageBuilder::find_locked() {
  for (const std::string& line : environment_.lock) {
    if (api_.image(line)) return line;
  }
  for (const std::string& line : environment_.lock) {
    if (line.find('@') == std::string::npos) continue;
    if (pull(line)) return line;
  }
  return std::string();
}

// Under this very name: podman finds an image by its digest whatever it is called.
bool ImageBuilder::has(const std::string& name) {
  const auto image = api_.image(name);
  if (!image || name.find('@') == std::string::npos) return image.has_value();
  return std::ranges::find(image->digests, name) != image->digests.end();
}

Status ImageBuilder::pull(const std::string& name) {
  if (name.find('@') != std::string::npos) TRY(api_.check_registry(name, credentials()));
  return api_.pull(name, credentials(), PullWatch(watcher_));
}

Result<std::string> ImageBuilder::fetch(const std::string& name) {
  TRY(check_image_file(environment_));
  const std::vector<std::string>& folders = environment_.image_folders;
  if (const std::string file = rest_of(name, "docker-archive:"); !file.empty() && folders.empty()) {
    TRY_SET(const Fd fd, container::open_image_file(file, folders));
    return api_.load(fd, file, BuildWatch(watcher_));
  }
  if (const std::string file = rest_of(name, "rootfs:"); !file.empty()) {
    TRY_SET(const Fd fd, container::open_image_file(file, folders));
    return api_.import(fd, file, image_tag(environment_.hash));
  }
  // A submitter's archive names images as it likes, and would replace those of others: skopeo
  // gives it our name.
  if (name.starts_with("oci:") || name.starts_with("oci-archive:") ||
      name.starts_with("docker-archive:")) {
    return load_layout(name);
  }
  return fetch_named(name);
}

// By the digest that was found at submit: the tag may have moved since.
Result<std::string> ImageBuilder::fetch_named(const std::string& tagged) {
  const std::string& digest = recipe_.image_digest;
  const std::string name = pinned_name(recipe_);
  // An id alone may be an image that another's password has fetched.
  for (const std::string& each : {tagged, environment_.limited ? std::string() : digest, name}) {
    if (each.empty() || (each != digest && !has(each))) continue;
    const auto image = api_.image(each);
    if (!image || (!digest.empty() && !container::is_image(*image, digest))) continue;
    watcher_.line("The image " + tagged + " is here already.");
    return digest.empty() ? each : image->id;
  }
  watcher_.line("Fetching the image " + tagged + (digest.empty() ? "" : " (" + digest + ")"));
  if (Status pulled = pull(name); !pulled) {
    Error error = std::move(pulled).error();
    if (error.kind == ErrorKind::denied) {
      error.hint = "Give the registry's address, the user's name and the secret with the password.";
    }
    return std::unexpected(std::move(error));
  }
  return name;
}

// Every engine loads archives of docker's form, and not all the other one.
Result<std::string> ImageBuilder::load_layout(const std::string& reference) {
  const fs::path skopeo = find_program("skopeo", settings_.variables);
  if (skopeo.empty()) {
    return fail(ErrorKind::unavailable,
                "the program skopeo is needed to hand " + reference + " to the engine",
                "Install skopeo, or give the image as docker-archive:FILE.");
  }
  std::string from = reference;
  if (!environment_.image_folders.empty()) {
    TRY_SET(from, container::copy_image(reference, environment_.image_folders, scratch_));
  }
  const fs::path archive = scratch_ / "image.tar";
  std::string said;
  const auto line = [&](std::string_view text) {
    said = text;
    watcher_.line(text);
  };
  const Program program{
      .command = {skopeo, "--insecure-policy", "copy", from,
                  "docker-archive:" + archive.string() + ":" + image_tag(environment_.hash)},
      .variables = settings_.variables,
      .folder = scratch_};
  TRY_SET(const Ended ended, run_program(program, watcher_, line));
  if (ended.exit_code != 0) return fail(ErrorKind::invalid, "read " + reference + ": " + said);
  TRY_SET(const Fd fd, open_regular(archive));
  return api_.load(fd, archive, BuildWatch(watcher_));
}

// An id, or a name of ours, may be an image that another's password has fetched; a transport reads
// files of this machine.
Status ImageBuilder::check_dockerfile(const std::string& dockerfile) {
  if (!environment_.limited) return {};
  TRY_SET(const Fd folder, open_file(scratch_ / "context", O_RDONLY | O_DIRECTORY));
  TRY_SET(const Fd file, open_beneath(folder.get(), dockerfile));
  TRY_SET(const std::string text, container::read_document(file, dockerfile));
  for (const std::string& image : images_in(text, recipe_.build_arguments)) {
    const bool digest = image.find('@') != std::string::npos;
    const bool unclear = may_be_anothers(image) || names_transport(image) ||
                         !is_plain_image_name(image) ||
                         (digest && !has(image) && api_.image(image));
    if (!unclear && digest && !has(image)) TRY(api_.check_registry(image, credentials()));
    if (!unclear) continue;
    return fail(ErrorKind::denied,
                "Dockerfile: only an admin may build from the image '" + image + "'",
                "Name it as a registry does, NAME:TAG, without an id, a transport such as "
                "docker-archive: and ${A:-B}.");
  }
  return {};
}

// Fetches the images again that a Dockerfile begins with, where they came from a registry.
void ImageBuilder::refresh(const std::string& dockerfile) {
  const auto folder = open_file(scratch_ / "context", O_RDONLY | O_DIRECTORY);
  if (!folder) return;
  const auto file = open_beneath(folder->get(), dockerfile);
  if (!file) return;
  const auto text = container::read_document(*file, dockerfile);
  if (!text) return;
  for (const std::string& name : images_in(*text, recipe_.build_arguments)) {
    const auto image = api_.image(name);
    if (!image || image->digests.empty() || !is_plain_image_name(name)) continue;
    if (const Status pulled = pull(name); !pulled) {
      watcher_.line("The copy of " + name + " that is here is used: " + pulled.error().message);
    }
  }
}

Result<std::string> ImageBuilder::build_dockerfile() {
  TRY_SET(const ImageContext context, write_context(recipe_, scratch_, settings_, watcher_));
  TRY(check_dockerfile(context.dockerfile));
  if (!recipe_.rebuild.empty()) refresh(context.dockerfile);
  std::map<std::string, std::string> arguments = proxy_arguments(settings_);
  for (const auto& [name, value] : recipe_.build_arguments) arguments[name] = value;
  return build(context, std::move(arguments));
}

Result<std::string> ImageBuilder::build_layer() {
  TRY_SET(const std::string name, fetch(recipe_.image));
  TRY_SET(const EngineApi::Image base, api_.image(name));
  // A name that an engine cannot mistake for one of a registry.
  const std::string from = image_tag(environment_.hash) + "-base";
  TRY(api_.tag(base.id, from));
  const ImageLayer layer = packages_layer(environment_, from, base.config, settings_);
  const fs::path folder = scratch_ / "layer";
  TRY(make_dirs(folder));
  for (const auto& [file, bytes] : layer.files) TRY(write_file(folder / file, bytes));
  TRY_SET(const ImageContext context,
          pack_context(folder, scratch_, "Dockerfile", settings_, watcher_));
  Result<std::string> made = build(context, layer.arguments);
  TRY(api_.remove_image(from));
  return made;
}

Result<std::string> ImageBuilder::build(const ImageContext& context,
                                        std::map<std::string, std::string> arguments) {
  const EngineApi::Build asked{.context = context.tar,
                               .dockerfile = context.dockerfile,
                               .tag = image_tag(environment_.hash),
                               .arguments = std::move(arguments),
                               .credentials = credentials(),
                               .fresh = !recipe_.rebuild.empty()};
  BuildWatch watch(watcher_);
  auto made = api_.build(asked, std::ref(watch));
  if (made || made.error().kind != ErrorKind::invalid) return made;
  Error error = std::move(made).error();
  const bool pip = std::ranges::any_of(
      watch.printed(), [](const std::string& line) { return trim(line).starts_with("ERROR: "); });
  if (pip && !recipe_.requirements.empty()) {
    return std::unexpected(explain_failure("pip", 1, watch.printed(), recipe_.requirements));
  }
  // What the step printed last is mostly why it failed.
  const auto says_why = [](const std::string& line) {
    return !trim(line).empty() && !line.starts_with("Removing intermediate container") &&
           !line.starts_with(" ---> ") && !line.starts_with("Step ") && !line.starts_with("STEP ");
  };
  const auto why = std::ranges::find_if(watch.printed().rbegin(), watch.printed().rend(), says_why);
  if (why != watch.printed().rend()) error.message += ": " + std::string(trim(*why));
  error.hint = "All that was printed is in the log of the build.";
  return std::unexpected(std::move(error));
}

Credentials ImageBuilder::credentials() const { return credentials_of(environment_, settings_); }

// ---- who is told ----

Status PullWatch::operator()(const EngineApi::Progress& progress) {
  if (watcher_.stopped()) return fail(ErrorKind::cancelled, "it is not wanted any more");
  if (progress.layer.empty() || progress.text.starts_with("Pulling from")) {
    watcher_.line(progress.text);
    return {};
  }
  Layer& layer = layers_[progress.layer];
  if (layer.text != progress.text) watcher_.line(progress.layer + ": " + progress.text);
  layer.text = progress.text;
  layer.whole = layer.whole || progress.text == "Pull complete" ||
                progress.text == "Already exists" || progress.text == "Download complete";
  if (progress.text == "Downloading" && progress.total > 0) {
    layer.done = progress.done;
    layer.total = progress.total;
  }
  uint64_t done = 0;
  uint64_t total = 0;
  size_t whole = 0;
  for (const auto& [id, each] : layers_) {
    done += each.whole ? each.total : each.done;
    total += each.total;
    whole += each.whole ? 1 : 0;
  }
  std::string words = fmt::format("{} of {} layers", whole, layers_.size());
  if (total > 0) words += fmt::format(", {} of {}", format_size(done), format_size(total));
  if (words != told_) watcher_.progress(words);
  told_ = std::move(words);
  return {};
}

Status BuildWatch::operator()(const EngineApi::Progress& progress) {
  if (watcher_.stopped()) return fail(ErrorKind::cancelled, "it is not wanted any more");
  rest_ += progress.text;
  size_t begin = 0;
  for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    line(std::string_view(rest_).substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  return {};
}

void BuildWatch::line(std::string_view coloured) {
  const std::string plain = without_colours(coloured);
  const std::string_view text = plain;
  watcher_.line(text);
  // "Step 2/5 : RUN …" of docker, "STEP 2/5: RUN …" of podman.
  if (text.starts_with("Step ") || text.starts_with("STEP ")) {
    const std::string_view counted = text.substr(5, text.find_first_of(" :", 5) - 5);
    if (const size_t slash = counted.find('/'); slash != counted.npos) {
      watcher_.progress(
          fmt::format("step {} of {}", counted.substr(0, slash), counted.substr(slash + 1)));
    }
    printed_.clear();
  }
  if (printed_.size() < kPrintedMax) printed_.emplace_back(text);
}

}  // namespace

}  // namespace trainyard::env
