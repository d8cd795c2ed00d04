#include "supervisor/last_lines.h"

#include <doctest/doctest.h>

#include "base/text.h"

using namespace trainyard;
using namespace trainyard::supervisor;

TEST_CASE("the last ten lines are told, as they were printed") {
  std::string text;
  std::string expected;
  for (int i = 1; i <= 30; ++i) {
    text += "line " + std::to_string(i) + "\n";
    if (i > 20) expected += (i > 21 ? "\nline " : "line ") + std::to_string(i);
  }
  CHECK(last_lines(text, true) == expected);
  CHECK(last_lines("one\n\nthree", true) == "one\n\nthree");
  CHECK(last_lines("", true).empty());
  CHECK(last_lines("\n\n", true).empty());
}

TEST_CASE("half a line at the beginning is left out, unless it is all there is") {
  CHECK(last_lines("lf a line\nwhole\n", false) == "whole");
  CHECK(last_lines("lf a line", false) == "lf a line");
}

TEST_CASE("no more than two kilobytes are told, in whole lines if there are any") {
  const std::string line(300, 'x');
  std::string text;
  for (int i = 0; i < 10; ++i) text += line + "\n";
  CHECK(last_lines(text, true).size() == 6 * 301 - 1);
  CHECK(last_lines(std::string(4000, 'y'), false) == std::string(2048, 'y'));
}

TEST_CASE("what is told is valid UTF-8, whatever was printed and wherever it is cut") {
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "\u20ac";
  const std::string cut = last_lines(euros, false);
  CHECK(cut.size() <= 2048);
  CHECK(cut.size() > 2040);
  CHECK(to_utf8(cut) == cut);
  const std::string broken = last_lines("\xff\xfe bad \xe2\x82\n", true);
  CHECK(to_utf8(broken) == broken);
  CHECK(broken.find(" bad ") != std::string::npos);
}

TEST_CASE("of a progress bar its last state is told") {
  CHECK(last_lines("start\n 10%\r 50%\r100%\r\nend\r\n", true) == "start\n100%\nend");
}

TEST_CASE("a Python exception is the line after the last traceback's frames") {
  CHECK(python_exception("epoch 1\nTraceback (most recent call last):\n  File \"t.py\", line 3, in "
                         "<module>\n    main()\n    ~~~~^^\n  File \"t.py\", line 2, in main\n"
                         "    raise ValueError(\"no data\")\nValueError: no data\n") ==
        "ValueError: no data");
  CHECK(
      python_exception("  File \"t.py\", line 1\n    x x\n      ^\nSyntaxError: invalid syntax") ==
      "SyntaxError: invalid syntax");
  CHECK(python_exception(
            "  File \"a\", line 1\n    x\nKeyError: 'a'\n\nDuring handling\n\n"
            "Traceback (most recent call last):\n  File \"a\", line 2\n    y\nmine.Boom\n"
            "a note\n") == "mine.Boom");
  CHECK(python_exception("epoch 1\nepoch 2\n").empty());
  CHECK(python_exception("  File \"t.py\", line 1\n    x").empty());
  CHECK(python_exception("  File \"t.py\", line 1\n    x\nOldError: caught\n" +
                         std::string(5000, '.'))
            .empty());
}
