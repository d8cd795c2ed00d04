#include "base/text.h"

#include <doctest/doctest.h>

#include <limits>

namespace trainyard {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("small letters are made of A to Z, and of nothing else") {
  CHECK(lower("Standard_NC6 \xc3\x84[@") == "standard_nc6 \xc3\x84[@");
}

TEST_CASE("splitting keeps empty parts, and joining is its reverse") {
  CHECK(split("a,b,,c", ',') == Words{"a", "b", "", "c"});
  CHECK(split("", ',') == Words{""});
  CHECK(split(",", ',') == Words{"", ""});
  CHECK(join(split("a,b,,c", ','), ",") == "a,b,,c");
  CHECK(join({}, ", ") == "");
}

TEST_CASE("trimming takes white space off both ends") {
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n ") == "");
}

TEST_CASE("a whole number is read, and nothing else is") {
  CHECK(parse_int("42", "ranks") == 42);
  CHECK(parse_int("-7", "ranks") == -7);
  CHECK(parse_int("9223372036854775807", "x") == std::numeric_limits<int64_t>::max());
  CHECK(parse_int("-9223372036854775808", "x") == std::numeric_limits<int64_t>::min());
  for (const char* text :
       {"", "-", "+1", " 1", "1 ", "1.5", "0x10", "ten", "9223372036854775808"}) {
    CAPTURE(text);
    const auto number = parse_int(text, "ranks");
    REQUIRE(!number);
    CHECK(number.error().kind == ErrorKind::invalid);
    CHECK(number.error().message.starts_with("ranks: '"));
  }
}

TEST_CASE("a size is read with its unit, in powers of 1024") {
  CHECK(parse_size("512", "mem") == 512);
  CHECK(parse_size("0", "mem") == 0);
  CHECK(parse_size("64k", "mem") == 65536);
  CHECK(parse_size("4G", "mem") == int64_t{4} << 30);
  CHECK(parse_size("1.5GiB", "mem") == int64_t{3} << 29);
  CHECK(parse_size("100 MB", "mem") == int64_t{100} << 20);
  CHECK(parse_size(" 2tb ", "mem") == int64_t{2} << 40);
  CHECK(parse_size("10b", "mem") == 10);
  CHECK(parse_size("9223372036854775807", "mem") == std::numeric_limits<int64_t>::max());
}

TEST_CASE("what is not a size is refused") {
  for (const char* text : {"", "-1", "k", "4X", "4GG", "1e3", "inf", "nan", "1..5G", "4 G B", "0x1",
                           "8e", "99999999999999999999", "9999999999999999999999G"}) {
    CAPTURE(text);
    CHECK(!parse_size(text, "mem"));
  }
}

TEST_CASE("a duration is read in all the ways people write one") {
  CHECK(parse_duration("90", "time") == seconds(90));
  CHECK(parse_duration("90s", "time") == seconds(90));
  CHECK(parse_duration("15m", "time") == seconds(900));
  CHECK(parse_duration("2h", "time") == seconds(7200));
  CHECK(parse_duration("1.5h", "time") == seconds(5400));
  CHECK(parse_duration("1d", "time") == seconds(86400));
  CHECK(parse_duration("0.5", "time") == seconds(1));  // A limit of 0 would mean none.
  CHECK(parse_duration("2:04", "time") == seconds(124));
  CHECK(parse_duration("1:30:00", "time") == seconds(5400));
  CHECK(parse_duration("2-00:00:00", "time") == seconds(172800));
}

TEST_CASE("what is not a duration is refused") {
  for (const char* text :
       {"", "-5", "5x", "m", "1:", ":30", "1:60", "1:2:3:4", "1:00:99", "2-00:00", "2-00", "-1:00",
        "1:-5", "1e9", "inf", "9999999999999999999d"}) {
    CAPTURE(text);
    const auto duration = parse_duration(text, "time");
    REQUIRE(!duration);
    CHECK(duration.error().message.starts_with("time: '"));
  }
}

TEST_CASE("a size is shown with two figures or so") {
  CHECK(format_size(0) == "0 B");
  CHECK(format_size(1023) == "1023 B");
  CHECK(format_size(1024) == "1.0 kB");
  CHECK(format_size(41 * 1024 + 100) == "41 kB");
  CHECK(format_size(1024 * 1024 - 1) == "1.0 MB");
  CHECK(format_size(1288490189) == "1.2 GB");
  CHECK(format_size(std::numeric_limits<uint64_t>::max()) == "16 EB");
}

TEST_CASE("a duration is shown as people say it") {
  CHECK(format_duration(milliseconds(10)) == "0.01 s");
  CHECK(format_duration(milliseconds(6400)) == "6.4 s");
  CHECK(format_duration(milliseconds(59'990)) == "1:00");
  CHECK(format_duration(seconds(124)) == "2:04");
  CHECK(format_duration(seconds(3723)) == "1:02:03");
  CHECK(format_duration(milliseconds(3'599'600)) == "1:00:00");
  CHECK(format_duration(seconds(360'000)) == "100:00:00");
  CHECK(format_duration(seconds(-5)) == "0.00 s");
}

TEST_CASE("a mistyped word finds the one that was meant") {
  const Words known = {"local", "cpu-cluster", "gpu-cluster"};
  CHECK(nearest("cpu-clster", known) == "cpu-cluster");
  CHECK(nearest("lcoal", known) == "local");
  CHECK(nearest("LOCAL", known) == "local");
  CHECK(nearest("mars", known) == "");
  CHECK(nearest("", known) == "");
  CHECK(nearest("x", Words{"a"}) == "");
  CHECK(nearest(std::string(100'000, 'x'), known) == "");
}

TEST_CASE("UTF-8 stays as it is and other bytes become U+FFFD") {
  const std::string good = "plain, ü, €, 😀, \xEF\xBF\xBD";
  CHECK(to_utf8(good) == good);
  CHECK(to_utf8("a\xFF"
                "b") ==
        "a\xEF\xBF\xBD"
        "b");
  CHECK(to_utf8("\xC3") == "\xEF\xBF\xBD");                              // Cut off.
  CHECK(to_utf8("\xC0\xAF") == "\xEF\xBF\xBD\xEF\xBF\xBD");              // Overlong '/'.
  CHECK(to_utf8("\xED\xA0\x80").find('\xED') == std::string::npos);      // A surrogate.
  CHECK(to_utf8("\xF4\x90\x80\x80").find('\xF4') == std::string::npos);  // Past the last one.
  CHECK(to_utf8(std::string_view("\0", 1)) == std::string(1, '\0'));
}

TEST_CASE("a text from elsewhere moves no cursor") {
  CHECK(printable("plain äß 日本") == "plain äß 日本");
  CHECK(printable("a\x1b[2Jb\r\n\tc\x7f") == "a [2Jb   c ");
  CHECK(printable("a\nb\tc", "\n") == "a\nb c");
  CHECK(printable("\xC2\x9B"
                  "31m") == " 31m");
  CHECK(printable("\xE2\x80\xAE"
                  "evil\xE2\x81\xA9") == " evil ");
  CHECK(printable("\xC2\xA0") == "\xC2\xA0");
  CHECK(printable("\xff") == "\xEF\xBF\xBD");
  CHECK(printable(std::string("\0", 1)) == " ");
}

}  // namespace
}  // namespace trainyard
