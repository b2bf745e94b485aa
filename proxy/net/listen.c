#include "net/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool set_options(
	int fd, const struct sockaddr *address, const struct listen_options *options)
{
	int one = 1, reuse_port = options->reuse_port, v6only = options->v6only;

	if (address->sa_family == AF_UNIX)
		return true;
	/* A process that restarts must not wait for old connections to time out. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &reuse_port, sizeof(reuse_port)) != 0)
		return false;
	/* Inherited by accepted sockets, which saves a call a connection. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
		return false;
	return address->sa_family != AF_INET6 ||
	       setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) == 0;
}

static void remove_stale(const struct sockaddr *address, socklen_t len)
{
	const char *path = ((const struct sockaddr_un *)address)->sun_path;
	struct stat status;

	if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode))
		return;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, address, len) != 0 && errno == ECONNREFUSED)
		unlink(path);
	close(fd);
}

static bool set_mode(const struct sockaddr *address, mode_t mode)
{
	if (address->sa_family != AF_UNIX || mode == 0)
		return true;
	return chmod(((const struct sockaddr_un *)address)->sun_path, mode) == 0;
}

int listen_open(const struct sockaddr *address, socklen_t len, const struct listen_options *options)
{
	if (address->sa_family == AF_UNIX)
		remove_stale(address, len);
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (set_options(fd, address, options) && bind(fd, address, len) == 0 &&
		set_mode(address, options->mode) && listen(fd, options->backlog) == 0)
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

bool listen_is_taken(
	const struct sockaddr *address, socklen_t len, const struct listen_options *options)
{
	struct listen_options alone = *options;

	if (address->sa_family == AF_UNIX)
		return false;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	alone.reuse_port = false;
	bool is_taken = set_options(fd, address, &alone) && bind(fd, address, len) != 0 &&
			errno == EADDRINUSE;
	close(fd);
	return is_taken;
}
