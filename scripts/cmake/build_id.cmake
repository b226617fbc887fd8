# Run as a script: writes OUTPUT from TEMPLATE with the build id, a hash of the headers of lib/ and of what was given as SEED
# (commit, version, compiler). Host and engine plugin share C++ types, so that is what must agree.
file(GLOB_RECURSE headers RELATIVE ${LIB_DIR} ${LIB_DIR}/*.h ${LIB_DIR}/*.def)
list(SORT headers)
set(text "${SEED}\n")
foreach(header IN LISTS headers)
  file(SHA256 ${LIB_DIR}/${header} hash)
  string(APPEND text "${header} ${hash}\n")
endforeach()
string(SHA256 TL_BUILD_ID "${text}")
string(SUBSTRING ${TL_BUILD_ID} 0 32 TL_BUILD_ID)
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
