#include "cli/environment_options.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "container/arguments.h"
#include "container/image_digest.h"

namespace trainyard::cli {
namespace {

constexpr Option kEnvironmentRows[] = {
    {"--environment", Takes::value, "NAME[:V]",
     "A registered or curated environment; else what the machine has."},
    {"--requirements", Takes::value, "FILE", "Packages to install, as pip reads them."},
    {"--conda", Takes::value, "FILE", "Packages to install, as conda reads them."},
    {"--image", Takes::value, "IMAGE", "Run in a container of this image."},
    {"--docker-arg", Takes::value, "ARG",
     "For the container, as docker run has it: '-v /data:/data'; again for more."},
    {"--shm-size", Takes::value, "SIZE", "The container's /dev/shm: 2g."},
};

Status check_file(const Args& args, std::string_view key) {
  const std::string file = args.value(key);
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) return {};
  return fail(fs::exists(file, ignored) ? ErrorKind::invalid : ErrorKind::not_found,
              "--" + std::string(key) + " " + file + ": no such file");
}

// A secret of the same registry and user is the same one.
std::string secret_name(const ImageRegistry& registry) {
  std::string name = "registry-" + registry.address;
  if (!registry.username.empty()) name += "-" + registry.username;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  }
  return name.substr(0, 255);
}

// From where we are: who reads it is elsewhere.
std::string with_absolute_path(const std::string& image) {
  const container::ImageSource source = container::image_source(image);
  if (source.form == container::ImageSource::Form::named || source.path.is_absolute()) return image;
  const fs::path whole = fs::absolute(source.path).lexically_normal();
  return image.substr(0, image.find(':') + 1) + whole.string() +
         (source.tag.empty() ? "" : ":" + source.tag);
}

}  // namespace

constinit const std::span<const Option> kEnvironmentOptions = kEnvironmentRows;

Status apply_environment_options(const Context& context, dialects::EnvironmentDraft& draft) {
  const Args& args = context.args();
  const bool named = args.has("environment");
  const bool image = args.has("image");
  if (named && image) {
    return fail(ErrorKind::invalid, "--environment and --image both say what to run in",
                "Keep one of them; --requirements adds packages to either.");
  }
  Environment& environment = draft.environment;
  dialects::Warnings warnings;
  if (named || image) {
    draft.build.clear();
    draft.password.clear();
    environment.name.clear();
    environment.version.clear();
    environment.interpreter.clear();
    environment.recipe = {};
    environment.registry = {};
    environment.left_out.clear();
  }
  if (named && args.value("environment") != "system") {
    TRY_SET(const EnvironmentName name, parse_environment_name(args.value("environment")));
    environment.name = name.name;
    environment.version = name.version;
  }
  if (image) {
    if (trim(args.value("image")).empty()) return fail(ErrorKind::invalid, "--image: which one?");
    environment.recipe.kind = EnvironmentKind::container;
    environment.recipe.image = args.value("image");
  }
  if (args.has("conda")) {
    TRY(check_file(args, "conda"));
    TRY(dialects::add_conda(args.value("conda"), environment, warnings));
  }
  if (args.has("requirements")) {
    TRY(check_file(args, "requirements"));
    TRY(dialects::add_requirements(args.value("requirements"), environment, warnings));
  }
  for (const std::string& warning : warnings) context.warn(warning);
  const auto& arguments = args.values("docker-arg");
  environment.arguments.insert(environment.arguments.end(), arguments.begin(), arguments.end());
  if (args.has("shm-size")) {
    TRY(parse_size(args.value("shm-size"), "--shm-size"));
    environment.shm_size = args.value("shm-size");
  }
  return {};
}

Status settle_environment(Context& context, std::string_view workspace,
                          dialects::EnvironmentDraft& draft) {
  Environment& environment = draft.environment;
  environment.recipe.image = with_absolute_path(environment.recipe.image);
  TRY_SET(environment.arguments, container::argument_words(environment.arguments));
  if (draft.password.empty()) return {};
  environment.registry.secret = secret_name(environment.registry);
  TRY_SET(client::Api * api, context.api());
  TRY_WITHIN("the password of " + environment.registry.address,
             api->set_secret(workspace, environment.registry.secret, draft.password));
  draft.password.clear();
  context.say("the password of " + environment.registry.address + " is kept as the secret " +
              environment.registry.secret);
  return {};
}

Status check_named(Context& context, std::string_view workspace, const Environment& environment) {
  if (environment.name.empty() || !environment.hash.empty()) return {};
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json found, api->environment(workspace, {environment.name, environment.version}));
  const std::string note = cell_of(found, "note");
  if (!note.empty()) context.warn("environment " + environment.name + ": " + note);
  return {};
}

}  // namespace trainyard::cli
