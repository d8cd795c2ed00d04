// The compiled half of fmt, once. Debian ships it as a shared library only; header-only it would be
// compiled into every file that formats a string, 5 s each under the sanitizers.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float x) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double x) noexcept;
template FMT_API locale_ref::locale_ref(const std::locale& locale);
template FMT_API std::locale locale_ref::get<std::locale>() const;
template FMT_API thousands_sep_result<char> thousands_sep_impl(locale_ref locale);
template FMT_API char decimal_point_impl(locale_ref locale);
template FMT_API void buffer<char>::append(const char* begin, const char* end);
template FMT_API void vformat_to(buffer<char>& out, string_view format,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)> arguments,
                                 locale_ref locale);

}  // namespace detail
FMT_END_NAMESPACE
