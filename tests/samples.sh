#!/bin/sh
# The configurations that come with sluice have no error. TAP.
cd "${top_srcdir:-.}" || exit 1
: "${SLUICE:=build/sluice}"
count=0 failed=0
for file in etc/sluice.ini etc/sluice-demo.ini docker/sluice.ini; do
	count=$((count + 1))
	if output=$("$SLUICE" check -c "$file" 2>&1); then
		echo "ok $count - $file"
	else
		echo "not ok $count - $file"
		echo "$output" | sed 's/^/# /'
		failed=1
	fi
done
echo "1..$count"
exit $failed
