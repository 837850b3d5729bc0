# Runs in the working folder, once the files beside it are there.
chmod 444 rates.csv
rm setup.sh
