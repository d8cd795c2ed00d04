#pragma once

#include <string>
#include <string_view>

namespace trainyard::supervisor {

// The last lines of a console for people, of its last bytes: at most 10 and 2 kB, valid UTF-8, of
// a line that wrote over itself (a progress bar) what it came to. `whole`: nothing precedes `tail`.
std::string last_lines(std::string_view tail, bool whole);

}  // namespace trainyard::supervisor
