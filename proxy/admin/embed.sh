#!/bin/sh
# embed.sh NAME=FILE...: a table of the files' bytes in C, for admin/dashboard_files.h. A name without
# a file is empty.
set -eu
echo '/* Made by embed.sh. */'
echo '#include "admin/dashboard_files.h"'
for entry in "$@"; do
	name=${entry%%=*}
	file=${entry#*=}
	printf 'static const unsigned char bytes_%s[] = {\n' "$(echo "$name" | tr -c 'a-zA-Z0-9\n' _)"
	if [ -n "$file" ]; then
		od -An -v -tu1 "$file" | sed 's/  */,/g; s/^,//; s/$/,/'
	fi
	echo '0};'
done
echo 'const struct dashboard_file dashboard_files[] = {'
for entry in "$@"; do
	name=${entry%%=*}
	bytes=bytes_$(echo "$name" | tr -c 'a-zA-Z0-9\n' _)
	echo "{\"$name\", $bytes, sizeof($bytes) - 1},"
done
echo '};'
echo 'const size_t dashboard_file_count = sizeof(dashboard_files) / sizeof(dashboard_files[0]);'
