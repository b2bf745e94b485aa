#include "http/method.h"

#include <stddef.h>
#include <stdint.h>

#define NAME(method) [HTTP_METHOD_##method] = #method

static const char *const names[HTTP_METHODS] = {
	NAME(GET),
	NAME(HEAD),
	NAME(POST),
	NAME(PUT),
	NAME(DELETE),
	NAME(CONNECT),
	NAME(OPTIONS),
	NAME(TRACE),
	NAME(PATCH),
	NAME(ACL),
	[HTTP_METHOD_BASELINE_CONTROL] = "BASELINE-CONTROL",
	NAME(BIND),
	NAME(CHECKIN),
	NAME(CHECKOUT),
	NAME(COPY),
	NAME(LABEL),
	NAME(LINK),
	NAME(LOCK),
	NAME(MERGE),
	NAME(MKACTIVITY),
	NAME(MKCALENDAR),
	NAME(MKCOL),
	NAME(MKREDIRECTREF),
	NAME(MKWORKSPACE),
	NAME(MOVE),
	NAME(ORDERPATCH),
	NAME(PROPFIND),
	NAME(PROPPATCH),
	NAME(PURGE),
	NAME(QUERY),
	NAME(REBIND),
	NAME(REPORT),
	NAME(SEARCH),
	NAME(UNBIND),
	NAME(UNCHECKOUT),
	NAME(UNLINK),
	NAME(UNLOCK),
	NAME(UPDATE),
	NAME(UPDATEREDIRECTREF),
	[HTTP_METHOD_VERSION_CONTROL] = "VERSION-CONTROL",
};

const char *http_method_name(enum http_method method)
{
	return names[method];
}

enum http_method http_method_of(struct slice name)
{
	for (unsigned i = 0; i < HTTP_METHOD_OTHER; i++) {
		if (slice_equal(name, slice_of(names[i])))
			return (enum http_method)i;
	}
	return HTTP_METHOD_OTHER;
}

bool http_method_is_misspelt(struct slice name)
{
	for (unsigned i = 0; i < HTTP_METHOD_OTHER; i++) {
		if (slice_equal_nocase(name, slice_of(names[i])))
			return !slice_equal(name, slice_of(names[i]));
	}
	return false;
}
