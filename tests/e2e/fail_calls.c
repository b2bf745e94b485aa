/*
 * Lets system calls of a program fail, without touching it: LD_PRELOAD this and name a file in
 * FAIL_CALLS_FILE. The file is mapped; the test writes it while the program runs, for each call how
 * many of the next ones fail (-1: all) and with which errno value:
 *
 *   0  pread     of any file
 *   1  pwrite    of any file
 *   2  accept4   of any socket
 *   3  epoll_ctl that adds a socket that listens
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum call { CALL_PREAD, CALL_PWRITE, CALL_ACCEPT, CALL_LISTEN_EVENT, CALLS };

struct failure {
	_Atomic int64_t count, error;
};

static struct failure none[CALLS];
static struct failure *failures = none;

__attribute__((constructor)) static void map_failures(void)
{
	const char *path = getenv("FAIL_CALLS_FILE");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *at = mmap(NULL, sizeof(none), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		failures = at;
	close(fd);
}

static bool fails(enum call call)
{
	struct failure *failure = &failures[call];
	int64_t count = atomic_load(&failure->count);

	while (count > 0 && !atomic_compare_exchange_weak(&failure->count, &count, count - 1))
		;
	if (count == 0)
		return false;
	errno = (int)atomic_load(&failure->error);
	return true;
}

ssize_t pread64(int fd, void *at, size_t bytes, off64_t offset);
ssize_t pread64(int fd, void *at, size_t bytes, off64_t offset)
{
	return fails(CALL_PREAD) ? -1 : syscall(SYS_pread64, fd, at, bytes, offset);
}

ssize_t pwrite64(int fd, const void *at, size_t bytes, off64_t offset);
ssize_t pwrite64(int fd, const void *at, size_t bytes, off64_t offset)
{
	return fails(CALL_PWRITE) ? -1 : syscall(SYS_pwrite64, fd, at, bytes, offset);
}

int accept4(int fd, struct sockaddr *restrict peer, socklen_t *restrict len, int flags)
{
	return fails(CALL_ACCEPT) ? -1 : (int)syscall(SYS_accept4, fd, peer, len, flags);
}

static bool listens(int fd)
{
	int is_listening = 0;
	socklen_t len = sizeof(is_listening);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) == 0 &&
	       is_listening != 0;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	if (operation == EPOLL_CTL_ADD && listens(fd) && fails(CALL_LISTEN_EVENT))
		return -1;
	return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}
