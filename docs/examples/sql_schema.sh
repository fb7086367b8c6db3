recipes store schema --url postgresql://127.0.0.1:5432/app > recipes.sql
psql "host=127.0.0.1 port=5432 dbname=app user=app password=secret" \
  --quiet --set ON_ERROR_STOP=1 --file recipes.sql
