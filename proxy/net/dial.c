#include "net/dial.h"

#include <errno.h>
#include <string.h>

int dial_progress(struct stream *stream, const char **why)
{
	int error = stream_error(stream);

	*why = strerror(error);
	if (error != 0)
		return error;
	if (!stream->transport->handshake)
		return stream->writable ? 0 : EINPROGRESS;
	switch (stream_handshake(stream, why)) {
	case STREAM_OK:
		return 0;
	case STREAM_AGAIN:
		return EINPROGRESS;
	case STREAM_END:
	case STREAM_FAILED:
		break;
	}
	return EPROTO;
}
