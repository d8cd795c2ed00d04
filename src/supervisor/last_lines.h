#pragma once

#include <string>
#include <string_view>

namespace trainyard::supervisor {

// The last lines of a console for people, of its last bytes: at most 10 and 2 kB, valid UTF-8, of
// a line that wrote over itself (a progress bar) what it came to. `whole`: nothing precedes `tail`.
std::string last_lines(std::string_view tail, bool whole);

// The exception at the end of the last Python traceback in `tail`, "ValueError: no data"; empty:
// there is none near its end.
std::string python_exception(std::string_view tail);

}  // namespace trainyard::supervisor
