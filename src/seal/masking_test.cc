#include "seal/masking.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "seal/forms.h"

namespace trainyard::seal {
namespace {

using Texts = std::vector<std::string>;

std::string masked(const Texts& values, const Texts& chunks) {
  Mask mask(values);
  std::string shown;
  for (const std::string& chunk : chunks) shown += mask.feed(chunk);
  shown += mask.flush();
  return shown;
}

// What the promise says, in the plainest way.
std::string masked_naively(const Texts& forms, const std::string& text) {
  std::vector<bool> hidden(text.size());
  for (const std::string& form : forms) {
    for (size_t at = text.find(form); at != std::string::npos; at = text.find(form, at + 1)) {
      for (size_t i = at; i < at + form.size(); ++i) hidden[i] = true;
    }
  }
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!hidden[i]) shown += text[i];
    if (hidden[i] && (i == 0 || !hidden[i - 1])) shown += "***";
  }
  return shown;
}

// The longest end of `text` that begins a form and is not all of it.
size_t undecided(const Texts& forms, const std::string& text) {
  size_t longest = 0;
  for (const std::string& form : forms) {
    for (size_t size = std::min(form.size() - 1, text.size()); size > longest; --size) {
      if (text.ends_with(form.substr(0, size))) longest = size;
    }
  }
  return longest;
}

TEST_CASE("a value is hidden wherever it stands") {
  CHECK(masked({"hunter2"}, {"the password is hunter2!\n"}) == "the password is ***!\n");
  CHECK(masked({"hunter2"}, {"hunter2"}) == "***");
  CHECK(masked({"hunter2"}, {"xhunter2y hunter2\nhunter"}) == "x***y ***\nhunter");
  CHECK(masked({"aaaa"}, {"aaaaaaaab aaa"}) == "***b aaa");
}

TEST_CASE("a value cut by chunks is hidden too") {
  const std::string text = "a hunter2 b";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    CHECK(masked({"hunter2"}, {text.substr(0, cut), text.substr(cut)}) == "a *** b");
  }
  Texts letters;
  for (const char c : text) letters.emplace_back(1, c);
  CHECK(masked({"hunter2"}, letters) == "a *** b");
}

TEST_CASE("values that overlap are hidden together") {
  CHECK(masked({"abcd", "cdef"}, {"xabcdefx"}) == "x***x");
  CHECK(masked({"abcd", "cdef"}, {"xabcd", "e", "f", "x"}) == "x***x");
  CHECK(masked({"abcd", "cdef"}, {"xabcd", "e", "x"}) == "x***ex");
  CHECK(masked({"abcdefgh", "cdef"}, {"abcdef", "gx"}) == "ab***gx");
  CHECK(masked({"abcdefgh", "cdef"}, {"abcdef", "gh"}) == "***");
}

TEST_CASE("nothing is held back but what may become a value") {
  Mask mask({"hunter2"});
  CHECK(mask.feed("epoch 1\n") == "epoch 1\n");
  CHECK(mask.held_bytes() == 0);
  CHECK(mask.feed("loss 0.5 hunt") == "loss 0.5 ");
  CHECK(mask.held_bytes() == 4);
  CHECK(mask.feed("\n") == "hunt\n");
  CHECK(mask.feed("hunter2") == "***");
  CHECK(mask.held_bytes() == 0);
  CHECK(mask.feed("hunter") == "");
  CHECK(mask.flush() == "hunter");
  CHECK(mask.flush() == "");
}

TEST_CASE("a chunk without a value comes back as it is, not copied") {
  const std::string chunk(1000, 'x');
  Mask nothing;
  CHECK(nothing.feed(chunk).data() == chunk.data());
  Mask mask({"hunter2"});
  CHECK(mask.feed(chunk).data() == chunk.data());
  CHECK(mask.feed(chunk).size() == chunk.size());
}

TEST_CASE("a value that is too short hides nothing, nor does one of blanks") {
  CHECK(masked({"abc"}, {"abcabc"}) == "abcabc");
  CHECK(masked({""}, {"text"}) == "text");
  CHECK(masked({"        "}, {"if x:\n        y"}) == "if x:\n        y");
  CHECK(masked({"abc", "abcd"}, {"abc abcd"}) == "abc ***");
}

TEST_CASE("each line of a value of several is hidden, and its last line break is not part of it") {
  const std::string key = "-----BEGIN KEY-----\r\n  c2VjcmV0\nab\n-----END KEY-----\n";
  CHECK(masked({key}, {"x c2VjcmV0 y"}) == "x *** y");
  CHECK(masked({key}, {key}) == "***\n");
  CHECK(masked({"hunter2\n"}, {"hunter2\nnext\n"}) == "***\nnext\n");
}

TEST_CASE("the forms of a value are hidden") {
  const std::string value = "p@ss/w\"rd 1";
  for (const char* form : {
           "cEBzcy93InJkIDE=",     // base64
           "p%40ss%2Fw%22rd%201",  // encodeURIComponent
           "p%40ss%2fw%22rd%201",  // the same in small digits
           "p%40ss/w%22rd%201",    // Python's quote
           "p%40ss%2Fw%22rd+1",    // quote_plus, a form's body
           "p@ss/w\\\"rd 1",       // JSON
       }) {
    CHECK_MESSAGE(masked({value}, {std::string("[") + form + "]"}) == "[***]", form);
  }
  // "user:" + value + " and more": another place in base64's groups, and its ends belong to others.
  CHECK(masked({value}, {"dXNlcjpwQHNzL3cicmQgMSBhbmQgbW9yZQ=="}) == "dXNlcjp***SBhbmQgbW9yZQ==");
  // URL-safe base64.
  CHECK(masked({"\xfb\xff\xfe\xfb\xff\xfe"}, {"-__--__- +//++//+"}) == "*** ***");
}

TEST_CASE("a base64 form too short to be no chance is not looked for") {
  // "1234" begins in the middle of a group: four letters of its own.
  const Texts forms = forms_of({"1234"});
  for (const std::string& form : forms) CHECK((form == "1234" || form.size() >= 6));
}

TEST_CASE("a copy hides the same in a stream of its own") {
  Mask out({"hunter2"});
  Mask err = out;
  CHECK(out.feed("hunt") == "");
  CHECK(err.feed("er2") == "er2");
  CHECK(out.feed("er2") == "***");
}

TEST_CASE("a long value is hidden with windows longer than a shift can tell") {
  std::string value;
  for (int i = 0; i < 3000; ++i) value += std::to_string(i) + "x";
  REQUIRE(value.size() > 8192);
  CHECK(masked({value}, {"a" + value.substr(0, 400), value.substr(400) + "b"}) == "a***b");
  CHECK(masked({value}, {value.substr(1)}) == value.substr(1));
}

// However values, text and chunks fall: the same as the plain way, and as early as can be.
TEST_CASE("any text in any chunks is masked as the plain way does it") {
  std::mt19937 random(20260714);  // NOLINT(cert-msc51-cpp): the same every time.
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  for (int round = 0; round < 3000; ++round) {
    const size_t letters = 2 + below(3);
    const auto word = [&](size_t size) {
      std::string text;
      while (text.size() < size) text += static_cast<char>('a' + below(letters));
      return text;
    };
    Texts values;
    for (size_t i = below(4); i < 4; ++i) values.push_back(word(3 + below(8)));
    const Texts forms = forms_of(values);
    Mask mask(values);
    std::string text;
    std::string shown;
    for (size_t chunks = below(12); chunks > 0; --chunks) {
      std::string chunk = word(below(20));
      if (below(2) == 0) chunk += values[below(values.size())];
      if (below(4) == 0 && !forms.empty()) chunk += forms[below(forms.size())];
      if (below(3) == 0) chunk.resize(below(chunk.size() + 1));
      text += chunk;
      shown += mask.feed(chunk);
      REQUIRE(mask.held_bytes() <= undecided(forms, text));
    }
    shown += mask.flush();
    REQUIRE_MESSAGE(shown == masked_naively(forms, text), "round ", round, ": ", text);
  }
}

}  // namespace
}  // namespace trainyard::seal
