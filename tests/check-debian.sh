#!/bin/sh
# The Debian packages have the version of configure.ac and of CHANGES, and one maintainer. TAP.
cd "${top_srcdir:-.}" || exit 1
. tests/tap.sh

version=$(sed -n 's/^AC_INIT(\[sluice\], \[\([^]]*\)\].*/\1/p' configure.ac)
is 'CHANGES begins with the version' "$version" "$(sed -n '3s/ .*//p' CHANGES)"
is 'the changelog begins with the version' "$version" "$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)"
maintainer=$(sed -n 's/^Maintainer: //p' debian/control)
is 'the changelog names the maintainer' "$maintainer" "$(sed -n 's/^ -- \(.*>\)  .*/\1/p' debian/changelog | head -n 1)"
is 'no address is in a domain that cannot exist' '' "$(grep -rlE '@[a-z.]+\.invalid' debian docs etc/man etc/*.in)"
conclude
