#include "broken_reads.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int broken_reads;

ssize_t pread(int fd, void *at, size_t bytes, off_t offset)
{
	if (broken_reads == 0)
		return syscall(SYS_pread64, fd, at, bytes, offset);
	errno = broken_reads;
	return -1;
}
