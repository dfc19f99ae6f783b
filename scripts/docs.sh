#!/usr/bin/env bash
# Build the documentation into build/site with the mkdocs that is named, and make sure of two things: no link of ours
# leads nowhere, and no page loads anything from another host.
#
#     scripts/docs.sh MKDOCS
set -euo pipefail
cd "$(dirname "$0")/.."

# Not --quiet: that silences the warnings before --strict could count them.
NO_MKDOCS_2_WARNING=1 "${1:-mkdocs}" build --strict

# Links to read are fine; what a browser fetches by itself is not. The theme's own licence comments name hosts too.
pattern='<(script|img|iframe|source|video|audio)[^>]*[[:space:]]src="?(https?:)?//'
pattern+='|<link[^>]*rel="?(stylesheet|preconnect|preload|icon|dns-prefetch)[^>]*href="?(https?:)?//'
pattern+='|<link[^>]*href="?(https?:)?//[^>]*rel="?(stylesheet|preconnect|preload|icon|dns-prefetch)'
if grep -rliE --include='*.html' "$pattern" build/site; then
  echo 'docs: these pages load something from another host' >&2
  exit 1
fi
if grep -rlE --include='*.css' '(@import|url\()[[:space:]"'\'']*(https?:)?//' build/site; then
  echo 'docs: these style sheets load something from another host' >&2
  exit 1
fi
echo "docs: $(find build/site -name '*.html' | wc -l) pages in build/site"
