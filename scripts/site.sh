#!/bin/sh
# Builds the docs site with mdBook into out/site and checks its links. The first time, mdBook itself is compiled
# into .tools: about 5 minutes of two cores.
set -eu

cd "$(dirname "$0")/.."
version=0.5.4
mdbook=.tools/bin/mdbook

if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    # Without the features that watch files and serve pages.
    cargo install mdbook --version "$version" --locked --no-default-features --root .tools
fi

# Docs link to files outside of docs, which mdBook does not see: a copy of both, with links that fit.
rm -rf out/site out/site-source
python3 scripts/site.py stage out/site-source
"$mdbook" build out/site-source --dest-dir "$PWD/out/site"
python3 scripts/site.py check out/site
echo "the site: out/site/index.html"
