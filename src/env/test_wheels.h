#pragma once

#include <string>

#include "base/command.h"
#include "base/file.h"

namespace trainyard::env {

// Puts NAME-VERSION-py3-none-any.whl into `folder`: a module NAME with VERSION, a program NAME that
// prints where its interpreter is, and what it requires.
inline bool write_wheel(const fs::path& folder, const std::string& name, const std::string& version,
                        const std::string& requires_ = "") {
  constexpr const char* kMake = R"(
import sys, zipfile
folder, name, version, needs = sys.argv[1:]
info = f"{name}-{version}.dist-info/"
meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
meta += f"Requires-Dist: {needs}\n" if needs else ""
files = {
    f"{name}.py": f"import sys\nversion = '{version}'\ndef main():\n    print(sys.prefix)\n",
    info + "METADATA": meta,
    info + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    info + "entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
}
record = "".join(f"{path},,\n" for path in files) + info + "RECORD,,\n"
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in {**files, info + "RECORD": record}.items():
        wheel.writestr(path, text)
)";
  return make_dirs(folder) &&
         trainyard::output_of({"python3", "-c", kMake, folder, name, version, requires_},
                              milliseconds(30'000));
}

}  // namespace trainyard::env
