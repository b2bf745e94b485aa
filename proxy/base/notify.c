/* See notify.h. */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* A manager that is busy reads within this time, or misses a message. */
#define SEND_TIMEOUT_US 100000

bool notify_open(struct notify *notify, const char *path)
{
	struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
	size_t len = path ? strlen(path) : 0;

	*notify = (struct notify){.fd = -1, .address = {.sun_family = AF_UNIX}};
	if (len == 0)
		return true;
	errno = EINVAL;
	if ((path[0] != '/' && path[0] != '@') || len < 2)
		return false;
	errno = ENAMETOOLONG;
	if (len >= sizeof(notify->address.sun_path))
		return false;
	memcpy(notify->address.sun_path, path, len);
	if (path[0] == '@')
		notify->address.sun_path[0] = '\0';
	/* The name of an abstract socket has no end of its own. */
	notify->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
					  (path[0] == '/' ? 1 : 0));
	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify->fd >= 0)
		setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return notify->fd >= 0;
}

void notify_send(const struct notify *notify, const char *format, ...)
{
	char text[2048];
	va_list args;
	int len;

	if (notify->fd < 0)
		return;
	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len <= 0)
		return;
	if ((size_t)len >= sizeof(text))
		len = sizeof(text) - 1;
	while (sendto(notify->fd, text, (size_t)len, MSG_NOSIGNAL,
		       (const struct sockaddr *)&notify->address, notify->address_len) < 0 &&
		errno == EINTR)
		;
}

void notify_close(struct notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}

static bool read_number(const char *text, uint64_t *number)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return *end == '\0' && errno == 0;
}

uint64_t notify_watchdog_us(const char *usec, const char *pid, uint64_t own_pid)
{
	uint64_t period, whose;

	if (!read_number(usec, &period) || period == UINT64_MAX)
		return 0;
	if (pid && (!read_number(pid, &whose) || whose != own_pid))
		return 0;
	return period;
}
