# The installed manual, in the folder ${manual}: a link to what is installed elsewhere than in the project's folder
# leads there, and one to what is not installed is text.
file(GLOB pages "${manual}/*.md")
foreach(page ${pages})
  file(READ "${page}" text)
  string(REGEX REPLACE "\\]\\(\\.\\./(config|docker/(prometheus|grafana))" "](examples/\\1" text "${text}")
  string(REPLACE "](examples/config" "](examples" text "${text}")
  string(REPLACE "](examples/docker/" "](examples/" text "${text}")
  string(REGEX REPLACE "\\[([^]]*)\\]\\(\\.\\./[^)]*\\)" "\\1" text "${text}")
  file(WRITE "${page}" "${text}")
endforeach()
