export RECIPES_STORE=sqlite:///tmp/app.db

recipes run backup --report /tmp/backup.json -- sh -c 'exit 3' || code=$?
case $code in
  122) echo "the store does not answer" ;;
  123) echo "the lock was lost, and the command was ended" ;;
  124) echo "somebody else holds it" ;;
  *) echo "the command ended with $code" ;;
esac
cat /tmp/backup.json # "outcome": "exited" says that the 3 is the command's own
