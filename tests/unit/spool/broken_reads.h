/* A disk that breaks: reads of files fail with this errno value, unless it is 0. It replaces the
 * C library's pread in the program that includes this. */
#ifndef UNIT_SPOOL_BROKEN_READS_H
#define UNIT_SPOOL_BROKEN_READS_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static int broken_reads;

ssize_t pread(int fd, void *at, size_t bytes, off_t offset)
{
	if (broken_reads == 0)
		return syscall(SYS_pread64, fd, at, bytes, offset);
	errno = broken_reads;
	return -1;
}

#endif
