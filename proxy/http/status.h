/* Status codes and their reason phrases (RFC 9110 section 15, RFC 6585). */
#ifndef HTTP_STATUS_H
#define HTTP_STATUS_H

#include "base/slice.h"

/* The code and the phrase of a registered status, `429 Too Many Requests`, or an empty slice. */
struct slice http_status_line(unsigned status);

/* The phrase of a registered status, or an empty slice. */
struct slice http_status_reason(unsigned status);

#endif
