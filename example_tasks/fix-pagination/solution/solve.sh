#!/bin/bash
set -euo pipefail

cd /app
# Whole pages, and one more for what is left over; never fewer than one.
sed -i 's|return total // per_page|return max(1, -(-total // per_page))|' pagination.py
# Pages are counted from 1: the first begins at result 0, and 0 is no page.
sed -i 's|first = page \* per_page|first = (page - 1) * per_page|' pagination.py
sed -i 's|if page > page_count(len(items), per_page):|if not 1 <= page <= page_count(len(items), per_page):|' pagination.py
# The last page has no next one.
sed -i 's|if page <= page_count(total, per_page):|if page < page_count(total, per_page):|' pagination.py
