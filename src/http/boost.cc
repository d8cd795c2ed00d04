// The bodies of Asio and Beast, compiled once. Their assertions are off: one in Beast's chunk
// parser can be brought about by a peer that sends "0\r\n" and then one more byte.
#define BOOST_DISABLE_ASSERTS
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
