/*
 * Messages to the service manager that started the process, by the protocol of sd_notify(3): a
 * datagram of `NAME=value` lines to the unix socket that NOTIFY_SOCKET names.
 *
 * systemd documents the protocol as stable and open to other implementations, other supervisors
 * speak it as well, and it is one sendto: so libsystemd, which is not on every system, is not
 * needed for it.
 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
	int fd; /* -1: notifies no program */
	socklen_t address_len;
	struct sockaddr_un address;
};

/* `path` is the value of NOTIFY_SOCKET: a path, or `@name` for an abstract socket. Without one
 * (NULL or empty) returns true, and notify_send does nothing. False with errno set when there is a
 * path that can't be used. */
bool notify_open(struct notify *notify, const char *path);

/* Sends a message, and drops it when that would block for long or can't be: no service is stopped
 * by what its manager does not read. */
void notify_send(const struct notify *notify, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void notify_close(struct notify *notify);

/* The watchdog's period in microseconds by sd_watchdog_enabled(3): that of WATCHDOG_USEC when
 * WATCHDOG_PID is absent or names this process. 0: none is wanted. */
uint64_t notify_watchdog_us(const char *usec, const char *pid, uint64_t own_pid);

#endif
