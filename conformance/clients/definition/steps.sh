# steps.sh COUNT DELAY: prints its process and one line per step, then the result.
echo "process $$"
i=0
while [ "$i" -lt "$1" ]; do
    sleep "$2"
    i=$((i + 1))
    echo "step $i of $1"
done
echo
echo "$1 steps"
