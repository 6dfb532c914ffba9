# CPack runs this on what it has gathered: Debian wants manual pages and the changelog compressed, in a form
# that does not tell when.
file(GLOB pages "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/man1/*.1"
  "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/sluice/changelog")
foreach(page ${pages})
  execute_process(COMMAND gzip -9 --no-name --force ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
