#include "node/program.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>

#include <cerrno>
#include <optional>

#include "base/check.h"

#if TRAINYARD_NODE_EMBEDDED
extern "C" const char trainyard_node_program[];
extern "C" const char trainyard_node_program_end[];
#endif

namespace trainyard::node {
namespace {

std::string_view embedded() {
#if TRAINYARD_NODE_EMBEDDED
  return {trainyard_node_program,
          static_cast<size_t>(trainyard_node_program_end - trainyard_node_program)};
#else
  return {};
#endif
}

// Where a byte of our own memory lies in the file of the running binary.
struct Place {
  uintptr_t address = 0;
  std::optional<uint64_t> offset;
};

int look_in(dl_phdr_info* object, size_t, void* data) {
  auto& place = *static_cast<Place*>(data);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD) continue;
    if (place.address < begin || place.address >= begin + part.p_filesz) continue;
    place.offset = place.address - begin + part.p_offset;
  }
  return 1;  // The first object is the binary itself.
}

}  // namespace

Result<Program> program() {
  if (embedded().empty()) {
    return fail(ErrorKind::not_found, "this build of Trainyard carries no program for nodes",
                "Use a release build of the server (make build).");
  }
  static const Digest digest = sha256(embedded());
  return Program{embedded(), digest};
}

Result<ProgramFile> open_program() {
  TRY_SET(const Program program, node::program());
  Place place{reinterpret_cast<uintptr_t>(program.bytes.data()), std::nullopt};
  dl_iterate_phdr(look_in, &place);
  ENSURE(place.offset);
  // The running one, also when another has taken its place on disk.
  ProgramFile file{Fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), *place.offset,
                   program.bytes.size()};
  if (!file.fd) return fail_errno(errno, "open the running binary");
  return file;
}

Result<fs::path> install_program(const fs::path& root, Others others) {
  TRY_SET(const Program program, node::program());
  const std::string own = program.digest.hex().substr(0, 16);
  std::error_code error;
  if (others == Others::removed) {
    for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
      if (at->path().filename() != own) TRY(remove_tree(at->path()));
    }
  }
  fs::path path = root / own / "trainyard-node";
  if (fs::file_size(path, error) == program.bytes.size()) return path;
  TRY(make_dirs(path.parent_path(), 0700));
  TRY(write_file(path, program.bytes, 0700, Durable::yes));
  return path;
}

}  // namespace trainyard::node
